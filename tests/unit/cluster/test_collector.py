"""When garbage is collected; above all on a full disk."""

from __future__ import annotations

import os

import pytest

from stele.cluster.collector import MAKE_ROOM_PERIOD_US
from stele.cluster.embedded import EmbeddedBackend
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import OutOfSpace, StorageFailed
from stele.tablet.engine import World
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    memory_world,
    open_backend,
    put,
    reopened,
    values,
)


def with_garbage(world: World) -> EmbeddedBackend:
    """A store whose files are mostly left over from compactions."""
    backend = open_backend(world)
    table = backend.create_table("t", ONE_GROUP)
    for number in range(4):
        put(table, b"a", os.urandom(50_000))
        put(table, b"b", b"%d" % number)
        table.flush()
    table.compact()
    return backend


def full(backend: EmbeddedBackend) -> MemoryFileSystem:
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    files.capacity_bytes = files.disk.used_bytes
    return files


def test_garbage_makes_room_before_anybody_is_refused_again() -> None:
    backend = with_garbage(memory_world())
    files = full(backend)
    table = backend.table("t")
    before = files.disk.used_bytes
    with pytest.raises(OutOfSpace):
        put(table, b"c", os.urandom(30_000))
    assert files.disk.used_bytes < before - 100_000, "what compactions left is gone, trash and all"
    assert files.list("fragments") != []
    put(table, b"c", b"there is room")
    found = values(table)
    assert (found[b"b", "f"], found[b"c", "f"]) == (b"3", b"there is room")
    files.capacity_bytes = 1 << 40
    assert len(values(reopened(backend).table("t"))) == 3


def test_a_flush_that_finds_no_room_makes_some() -> None:
    backend = with_garbage(memory_world())
    table = backend.table("t")
    put(table, b"c", os.urandom(30_000))
    full(backend)
    with pytest.raises(OutOfSpace):
        table.flush()
    table.flush()
    assert table._state.memory.oldest_txn is None


def test_no_room_is_made_within_a_change_of_the_catalog_nor_all_the_time() -> None:
    world = memory_world()
    backend = with_garbage(world)
    files = full(backend)
    before = files.disk.used_bytes
    with backend._catalog_changes():
        backend.collector.make_room()
    assert files.disk.used_bytes == before
    backend.collector.make_room()
    left = files.disk.used_bytes
    assert left < before
    files.capacity_bytes = 1 << 40
    table = backend.table("t")
    put(table, b"b", b"newest")
    table.flush()
    table.compact()
    garbage = len(files.list("fragments"))
    backend.collector.make_room()
    assert len(files.list("fragments")) == garbage, "it was looked for a moment ago"
    assert isinstance(world.clock, MemoryClock)
    world.clock.advance(MAKE_ROOM_PERIOD_US)
    backend.collector.make_room()
    assert len(files.list("fragments")) < garbage


def test_room_that_cannot_be_made_is_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    backend = with_garbage(memory_world())
    full(backend)
    backend.store.meta.failure = StorageFailed("the disk is gone")
    backend.collector.make_room()
    assert "no room could be made" in caplog.text
