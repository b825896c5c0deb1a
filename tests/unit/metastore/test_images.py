"""Images between servers, and backups."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from unittest import mock

import pytest
from crc32c import crc32c

from stele.env.failpoints import armed
from stele.errors import Corruption, Unavailable
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.snapshots import AFTER_CHUNK, AFTER_STAGE
from stele.metastore.state.machine import StateMachine
from stele.protocol.raft import ImageChunk
from stele.raft import InstallSnapshot, Snapshot
from tests.unit.metastore.cluster_support import SHORT_LOG, TICK_US, group_of


async def test_a_backup_is_the_state_of_one_moment() -> None:
    async with group_of(1) as group:
        ms = group.client()
        for number in range(50):
            await ms.put(f"/k/{number}", b"x" * 1_000)
        pieces: list[bytes] = []
        index = await ms.admin.snapshot(pieces.append)
        copy = StateMachine(MemoryKeyValues())
        copy.replace(pieces)
        assert copy.applied_index == index
        assert copy.usage().keys == 50


async def test_damaged_chunks_are_refused() -> None:
    async with group_of(1) as group:
        (server,) = group.servers.values()
        images = server._images
        message = InstallSnapshot(9, server.node, 1, Snapshot(5, 1))

        def chunk(number: int, data: bytes) -> ImageChunk:
            return ImageChunk(server.cluster, message, number, crc32c(data), is_last=False)

        assert (await images.take(chunk(0, b"x"), b"x")).number == 0
        with pytest.raises(Corruption, match="damaged"):
            await images.take(chunk(1, b"y"), b"z")
        with pytest.raises(Corruption, match="no place"):
            await images.take(chunk(7, b"y"), b"y")


async def test_heartbeats_go_on_while_a_large_image_is_installed() -> None:
    """The image of many megabytes takes as long as the test wants, and nobody notices: the member
    that gets it answers, stays a follower of the same term, and the state it had can be read."""
    async with group_of(3, SHORT_LOG) as group:
        ms = group.client()
        await ms.put("/before", b"1")
        leader = await group.settled_leader()
        away = next(address for address in group.servers if address != leader)
        await group.kill(away)
        for number in range(60):
            async with ms.transaction() as writes:
                for part in range(4):
                    writes.put(f"/k/{number}/{part}", b"x" * 100_000)
        term = group.servers[leader].driver.node.core.term
        staged, goes_on = threading.Event(), threading.Event()

        def hold(_name: str) -> None:
            staged.set()
            assert goes_on.wait(30), "the loop of the member is free, so it is let go"

        with armed(AFTER_STAGE, hold) as point:
            member = group.start(away)
            assert await asyncio.to_thread(staged.wait, 30)
            nearest = group.client(away)
            for _ in range(3 * group.options.raft.election_ticks):
                await asyncio.sleep(TICK_US / 1e6)
                assert (await nearest.admin.status(away)).term == term, "no heartbeat was missed"
            assert not member.driver.machine.get("/k/59/3"), "the image is not the state yet"
            goes_on.set()
            async with asyncio.timeout(30):
                while member.driver.machine.get("/k/59/3") is None:
                    await asyncio.sleep(0.01)
        assert point.fired == 1
        assert group.servers[leader].driver.node.core.term == term
        await ms.put("/after", b"1")
        async with asyncio.timeout(30):
            while member.driver.machine.get("/after") is None:
                await asyncio.sleep(0.01)


async def test_a_chunk_whose_sender_is_gone_is_finished_before_the_next() -> None:
    """Another leader begins with an image of its own while a thread is still at the old one."""
    async with group_of(1) as group:
        (server,) = group.servers.values()
        images = server._images
        at_work, goes_on = threading.Event(), threading.Event()

        def chunk(index: int, number: int) -> ImageChunk:
            message = InstallSnapshot(9, server.node, 1, Snapshot(index, 1))
            return ImageChunk(server.cluster, message, number, crc32c(b"x"), is_last=False)

        def hold(_name: str) -> None:
            at_work.set()
            assert goes_on.wait(30)

        with armed(AFTER_CHUNK, hold, hit=1):
            old = asyncio.ensure_future(images.take(chunk(5, 0), b"x"))
            assert await asyncio.to_thread(at_work.wait, 30)
            old.cancel()
            await asyncio.wait([old])
            new = asyncio.ensure_future(images.take(chunk(6, 0), b"x"))
            await asyncio.sleep(0.05)
            was_done = new.done()
            goes_on.set()
            await new
        assert not was_done
        assert (await images.take(chunk(6, 1), b"x")).number == 1


async def test_an_image_that_breaks_off_is_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the reason: a member that waits for it must not wait for ever."""
    async with group_of(3, SHORT_LOG) as group:
        ms = group.client()
        leader = await group.settled_leader()
        images = group.servers[leader]._images
        away = next(address for address in group.servers if address != leader)
        await group.kill(away)
        for number in range(100):
            await ms.put(f"/k/{number}", b"x")
        send, failures = images._send_chunk, [ZeroDivisionError(), Unavailable("gone")]

        async def fail_first(*words: Any) -> None:
            if failures:
                raise failures.pop()
            await send(*words)

        with mock.patch.object(images, "_send_chunk", fail_first):
            member = group.start(away)
            async with asyncio.timeout(30):
                while member.driver.machine.get("/k/99") is None:
                    await asyncio.sleep(0.01)
    assert not failures
    assert "a bug in the way of the image" in caplog.text
