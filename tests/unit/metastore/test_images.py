"""Images between servers, and backups."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from stele.errors import Corruption
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state.machine import StateMachine
from stele.protocol.raft import ImageChunk
from stele.raft import InstallSnapshot, Snapshot
from tests.unit.metastore.cluster_support import group_of


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
