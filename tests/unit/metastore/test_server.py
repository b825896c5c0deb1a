"""Servers of one group: redirect, failover, membership, images, durability."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from stele.env.failpoints import armed, fail
from stele.env.memory import MemoryClock
from stele.env.memory_network import MemoryStream
from stele.errors import InvalidArgument, StorageFailed, Unavailable
from stele.metastore.log_runner import MEMORY_SYNCS
from stele.metastore.member import LOG_DIRECTORY
from stele.metastore.raft_log import AFTER_SYNC
from stele.protocol.metastore import WATCH, WatchRequest
from stele.protocol.metastore_values import KeyRange
from tests.unit.metastore.cluster_support import SHORT_LOG, group_of

MARK = b"this very entry"


async def test_a_client_of_a_follower_is_sent_to_the_leader() -> None:
    async with group_of(3) as group:
        followers = [address for address in group.servers if address != group.leader()]
        ms = group.client(followers[0])
        index = await ms.put("/a", b"1")
        found = await ms.get("/a")
        assert found is not None
        assert (found.value, found.index) == (b"1", index)
        assert ms.transport.addresses[0] == followers[0]
        assert group.leader() in ms.transport.addresses


async def test_nothing_acknowledged_is_lost_when_the_leader_dies() -> None:
    async with group_of(3) as group:
        ms = group.client()
        acknowledged: list[str] = []

        async def write(worker: int) -> None:
            for number in range(30):
                key = f"/k/{worker}-{number}"
                await ms.put(key, b"x")
                acknowledged.append(key)

        writing = [asyncio.ensure_future(write(worker)) for worker in range(8)]
        while len(acknowledged) < 60:
            await asyncio.sleep(0)
        dead = group.leader()
        await group.kill(dead)
        await asyncio.gather(*writing)
        assert {item.key for item in await ms.range("/k/")} == set(acknowledged)
        assert {item.version for item in await ms.range("/k/")} == {1}, "each took effect once"
        group.start(dead)
        back = group.client(dead)
        async with asyncio.timeout(20):
            while len(await back.range("/k/", serializable=True)) != 240:
                await asyncio.sleep(0.02)


async def test_a_watch_goes_on_at_another_node_without_gap_or_repetition() -> None:
    async with group_of(3) as group:
        ms = group.client()
        watch = await ms.watch("/w/")
        for number in range(10):
            await ms.put("/w/k", b"%d" % number)
        seen = [await anext(watch) for _ in range(5)]
        await group.kill(group.leader())
        for number in range(10, 20):
            await ms.put("/w/k", b"%d" % number)
        seen += [await anext(watch) for _ in range(15)]
        assert [c.value for changes in seen for c in changes.changes] == [
            b"%d" % number for number in range(20)
        ]
        assert all(a.index < b.index for a, b in itertools.pairwise(seen))
        await watch.close()


async def test_a_node_that_was_away_gets_an_image() -> None:
    async with group_of(3, SHORT_LOG) as group:
        ms = group.client()
        away = next(address for address in group.servers if address != group.leader())
        await group.kill(away)
        for number in range(200):
            await ms.put(f"/k/{number}", b"x" * 100)
        await ms.delete("/k/7")
        server = group.start(away)
        here = group.client(away)
        async with asyncio.timeout(20):
            while len(await here.range("/k/", serializable=True)) != 199:
                await asyncio.sleep(0.02)
        assert server.driver.node.status().first_index > 100
        await ms.put("/k/after", b"1")
        assert len(await ms.range("/k/")) == 200


async def test_leadership_is_handed_over_and_a_removed_node_is_out() -> None:
    async with group_of(3) as group:
        ms = group.client()
        members = await ms.admin.members()
        target = next(m for m in members if not m.is_leader)
        assert await ms.admin.transfer(target.node) == target.node
        assert await group.settled_leader() == target.address
        await ms.put("/a", b"1")
        gone = next(m for m in members if m.node != target.node)
        left = await ms.admin.remove(gone.node)
        assert gone.node not in [m.node for m in left]
        await ms.put("/a", b"2")
        assert len(await ms.admin.members()) == 2


@pytest.mark.parametrize("leads", [False, True])
async def test_a_removed_node_is_told_and_can_be_added_again(
    leads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it was away while it was removed, and after a restart."""

    async def said(text: str, times: int) -> None:
        async with asyncio.timeout(30):
            while caplog.text.count(text) < times:
                await asyncio.sleep(0.01)

    async with group_of(3) as group:
        ms = group.client()
        await ms.put("/a", b"1")
        gone = group.leader() if leads else next(a for a in group.servers if a != group.leader())
        node, cluster = group.servers[gone].node, group.servers[gone].cluster
        out = f"node {node} is no member of the group {cluster}: it was removed, as of index"
        if not leads:
            await group.kill(gone)
        await ms.admin.remove(node)
        if not leads:
            group.start(gone)
        await said(out, 1)
        await group.kill(gone)
        group.start(gone)
        await said(out, 2)
        assert (await ms.admin.status(gone)).role == "removed"
        await ms.admin.join(node, gone)
        await said(f"node {node} is a member of the group {cluster} again", 1)
        assert (await ms.admin.status(gone)).role == "follower"
        assert node in [member.node for member in await ms.admin.members() if member.is_voter]
        assert caplog.text.count(out) == 2, "once in each of its lives"


async def test_followers_hear_of_a_commit_without_another_write_or_a_heartbeat() -> None:
    async with group_of(3) as group:
        ms = group.client()
        leader = group.servers[group.leader()]
        await ms.put("/a", b"1")
        leader._cancel_timers()
        index = await ms.put("/a", b"2")
        machines = [server.driver.machine for server in group.servers.values()]
        async with asyncio.timeout(20):
            while any(machine.applied_index < index for machine in machines):
                await asyncio.sleep(0.001)
        assert {machine.applied_index for machine in machines} == {index}


async def test_entries_are_on_their_way_to_the_followers_before_the_own_sync_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that stands still all disks are quick, so the leader's loop waits for its own
    sync: what it has to say must have left by then, or disks are waited for one after the other."""
    written: list[bytes] = []
    write = MemoryStream.write

    def recorded(self: MemoryStream, *buffers: bytes) -> None:
        written.append(b"".join(buffers))
        write(self, *buffers)

    async with group_of(3, clock=MemoryClock()) as group:
        ms = group.client()
        for _ in range(4 * MEMORY_SYNCS):
            await ms.put("/a", b"the disk is quick")
        leader = group.disks[group.leader()]
        monkeypatch.setattr(MemoryStream, "write", recorded)
        seen: list[tuple[bool, int]] = []

        def look(_name: str) -> None:
            names = leader.list(LOG_DIRECTORY)
            if not seen and any(MARK in leader.read_all(f"{LOG_DIRECTORY}/{n}") for n in names):
                is_loop = threading.current_thread() is threading.main_thread()
                seen.append((is_loop, sum(MARK in data for data in written)))

        with armed(AFTER_SYNC, look):
            await ms.put("/a", MARK)
        assert seen == [(True, 3)], "the client's request, and one append to each follower"


async def test_only_the_leader_knows_how_the_others_are() -> None:
    async with group_of(3) as group:
        ms = group.client()
        status = await ms.admin.status(group.leader())
        assert status.role == "leader"
        assert {m.is_active for m in status.members if not m.is_leader} == {True}
        follower = next(address for address in group.servers if address != group.leader())
        assert (await ms.admin.status(follower)).role == "follower"


async def test_a_node_whose_sync_fails_stops_and_the_others_go_on() -> None:
    async with group_of(3) as group:
        ms = group.client()
        await ms.put("/a", b"1")
        with armed("metastore.raft_log.after_sync", fail(StorageFailed), hit=1):
            writing = asyncio.ensure_future(ms.put("/a", b"2"))
            ended = [server.ended for server in group.servers.values()]
            async with asyncio.timeout(20):
                await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        (stopped,) = [a for a, server in group.servers.items() if server.ended.done()]
        assert "storage failed" in group.servers[stopped].ended.result()
        await group.kill(stopped)
        await writing
        assert (await ms.get("/a")).value == b"2"  # type: ignore[union-attr]


async def test_a_node_alone_answers_nobody() -> None:
    async with group_of(3) as group:
        leader = group.leader()
        for address in [a for a in group.servers if a != leader]:
            await group.kill(address)
        with pytest.raises(Exception, match="not answered"):
            await group.client(leader).put("/a", b"1", timeout=0.3)
        with pytest.raises(Exception, match="not answered"):
            await group.client(leader).get("/a", timeout=0.3)
        stale = await group.client(leader).range("/", serializable=True)
        assert stale == []


async def test_a_step_of_the_membership_that_makes_no_sense_is_refused() -> None:
    async with group_of(1) as group:
        ms = group.client()
        (only,) = await ms.admin.members()
        with pytest.raises(InvalidArgument, match="last voter"):
            await ms.admin.remove(only.node)


async def test_a_leader_that_left_is_nobody_to_ask() -> None:
    """Who still follows it names neither its number nor an address."""
    async with group_of(3) as group:
        leader = await group.settled_leader()
        gone = group.servers[leader].node
        ms = group.client()
        others = [address for address in group.servers if address != leader]
        await ms.admin.remove(gone)
        for _ in range(50):
            for address in others:
                node = group.servers[address].driver.node
                if gone in node.core.membership.members:
                    continue
                assert node.leader_address in (None, *others)
                assert (await ms.admin.status(address)).leader != gone
            await asyncio.sleep(0.01)
        await ms.put("/after", b"1")


async def test_after_a_bug_a_node_does_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of what the turn was to do is lost: to go on might vouch for what is nowhere."""

    def fail() -> bool:
        raise ZeroDivisionError

    async with group_of(1) as group:
        (server,) = group.servers.values()
        ms = group.client()
        before = await ms.put("/a", b"1")
        with monkeypatch.context() as patch:
            patch.setattr(server.driver, "step", fail)
            writing = asyncio.ensure_future(ms.put("/a", b"2"))
            assert "turn" in await server.ended
        server.driver.tell_followers()
        await asyncio.sleep(0.1)
        writing.cancel()
        assert server.driver.machine.applied_index == before


async def test_who_watches_a_node_that_is_left_alone_is_sent_away() -> None:
    """It would hear nothing of what the others go on with, and not notice."""
    async with group_of(3) as group:
        leader = await group.settled_leader()
        channel = group.client(leader).transport.channel(leader)  # type: ignore[attr-defined]
        stream = await channel.stream(WATCH, WatchRequest(KeyRange("/a"), 0))
        await anext(stream)
        for address in [each for each in group.servers if each != leader]:
            await group.kill(address)
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable, match="cut off"):
                await anext(stream)
