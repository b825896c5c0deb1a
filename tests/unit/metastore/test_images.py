"""Images between servers, and backups."""

from __future__ import annotations

import asyncio
import threading

import pytest
from crc32c import crc32c

from stele.env.failpoints import armed
from stele.errors import Corruption
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.snapshots import AFTER_STAGE
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
