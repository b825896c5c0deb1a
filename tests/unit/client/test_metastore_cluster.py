"""Calls that find their way to whoever leads."""

from __future__ import annotations

import asyncio

import pytest

from stele.client.metastore_cluster import WATCHES_PER_CONNECTION
from stele.errors import DeadlineExceeded, InvalidArgument, StaleHandle
from stele.protocol.metastore import (
    CHANGE_MEMBERS,
    STATUS,
    ChangeMembersRequest,
    StatusRequest,
)
from stele.raft import Promote
from stele.rpc import Limits
from tests.unit.metastore.cluster_support import group_of


async def test_dead_addresses_are_passed_over() -> None:
    async with group_of(1) as group:
        ms = group.client("nobody:1", "nobody:2", *group.servers)
        await ms.put("/a", b"1")
        assert (await ms.get("/a")).value == b"1"  # type: ignore[union-attr]


async def test_a_copy_comes_from_a_node_that_answers() -> None:
    async with group_of(1) as group:
        await group.client().put("/a", b"1")
        pieces: list[bytes] = []
        ms = group.client("nobody:1", "nobody:2", *group.servers)
        assert await ms.admin.snapshot(pieces.append) > 0
        assert pieces


async def test_the_deadline_ends_what_cannot_be_answered() -> None:
    async with group_of(1) as group:
        ms = group.client("nobody:1")
        with pytest.raises(DeadlineExceeded, match=r"metastore\.read-index.*0\.1 s.*nobody"):
            await ms.put("/a", b"1", timeout=0.1)


async def test_a_refusal_that_will_not_change_is_raised_at_once() -> None:
    async with group_of(1) as group:
        with pytest.raises(InvalidArgument, match="not a path"):
            await group.client().put("nonsense", b"1")


async def test_a_learner_that_does_not_run_does_not_hide_what_the_leader_says() -> None:
    async with group_of(1) as group:
        ms = group.client()
        await ms.admin.add_learner(9, "nobody:9")
        with pytest.raises(DeadlineExceeded, match="node 9 has not caught up"):
            await ms.transport.call(CHANGE_MEMBERS, ChangeMembersRequest(Promote(9)), timeout_s=1.0)
        assert ms.transport.addresses == tuple(group.servers)


async def test_one_node_can_be_asked_by_itself() -> None:
    async with group_of(1) as group:
        ms = group.client()
        (address,) = group.servers
        answer = await ms.transport.call_at(address, STATUS, StatusRequest(), timeout_s=5)
        assert answer.role == "leader"


async def test_after_closing_nothing_is_dialled() -> None:
    async with group_of(1) as group:
        ms = group.client()
        await ms.put("/a", b"1")
        await ms.close()
        await ms.close()
        with pytest.raises(StaleHandle):
            await ms.put("/a", b"2")


async def test_a_watch_that_is_closed_ends() -> None:
    async with group_of(1) as group:
        watch = await group.client().watch("/w/")
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        waiting.cancel()
        await watch.close()
        with pytest.raises(StaleHandle):
            await anext(watch)


async def test_a_client_may_have_more_watches_than_a_connection_has_streams() -> None:
    count = WATCHES_PER_CONNECTION + Limits().streams_max
    async with group_of(1) as group:
        ms = group.client()
        watches = [await ms.watch("/w/") for _ in range(count)]
        index = await ms.put("/w/a", b"1")
        for watch in watches:
            assert (await anext(watch)).index == index
            await watch.close()
        again = await ms.watch("/w/")
        assert await ms.put("/w/a", b"2") == (await anext(again)).index
        await again.close()


async def test_one_address_is_enough_when_its_node_dies_later() -> None:
    async with group_of(3) as group:
        seed = await group.settled_leader()
        ms = group.client(seed)
        await ms.put("/a", b"1")
        async with asyncio.timeout(20):
            while len(ms.transport.addresses) < 3:
                await asyncio.sleep(0.005)
        await group.kill(seed)
        await ms.put("/a", b"2", timeout=20)
        assert (await ms.get("/a")).value == b"2"  # type: ignore[union-attr]
