"""Dropped tables come back for a while; then nothing of them is left."""

from __future__ import annotations

import os

import pytest

from stele.client.backend import KEPT_US_DEFAULT
from stele.cluster.dropped_tables import AFTER_CATALOG
from stele.cluster.embedded import EmbeddedBackend
from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import OutOfSpace, TableNotFound
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    memory_world,
    open_backend,
    put,
    reopened,
    values,
)

HOUR_US = 3_600_000_000


def filled() -> tuple[EmbeddedBackend, MemoryClock, MemoryFileSystem]:
    """A store with a table in files and in memory, beside another one."""
    clock = MemoryClock()
    backend = open_backend(memory_world(clock=clock))
    put(backend.create_table("other", ONE_GROUP), b"x", b"stays")
    table = backend.create_table("t", ONE_GROUP, [b"m"])
    put(table, b"a", os.urandom(10_000))
    table.flush()
    put(table, b"z", b"in memory")
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    return backend, clock, files


def is_gone(backend: EmbeddedBackend, table: str) -> bool:
    """Whether nothing speaks of a table any more; its files are garbage then."""
    store = backend.store
    in_meta = {config.table for config in store.meta1.all_configs()}
    return table not in in_meta | {record.id for record in store.coordination.tables()}


def test_after_its_time_a_dropped_table_is_deleted_with_its_files() -> None:
    backend, clock, files = filled()
    table = backend.table("t").id
    backend.drop_table("t")
    clock.advance(KEPT_US_DEFAULT - 1)
    backend.collector._collect()
    assert [info.name for info in backend.tables(dropped=True)] == ["t"]
    clock.advance(1)
    assert backend.tables(dropped=True) == ()
    with pytest.raises(TableNotFound, match="no dropped table"):
        backend.undrop_table("t")
    before = files.disk.used_bytes
    for _ in range(3):
        backend.collector._collect()
    assert is_gone(backend, table)
    assert files.disk.used_bytes < before - 10_000
    again = reopened(backend)
    assert values(again.table("other")) == {(b"x", "f"): b"stays"}
    put(again.create_table("t", ONE_GROUP), b"new", b"1")
    assert values(again.table("t")) == {(b"new", "f"): b"1"}


def test_a_table_that_came_back_is_not_deleted() -> None:
    backend, clock, _ = filled()
    backend.drop_table("t", keep_us=HOUR_US)
    backend.undrop_table("t")
    clock.advance(2 * HOUR_US)
    backend.collector._collect()
    assert values(backend.table("t"))[b"z", "f"] == b"in memory"


def test_without_a_time_it_is_deleted_at_once_also_on_a_full_disk() -> None:
    backend, _, files = filled()
    table = backend.table("t")
    put(table, b"b", os.urandom(100_000))
    files.capacity_bytes = files.disk.used_bytes + (16 << 10)
    with pytest.raises(OutOfSpace, match="keep='0s'"):
        backend.drop_table("t")
    backend.drop_table("t", keep_us=0)
    assert is_gone(backend, table.id)
    with pytest.raises(TableNotFound):
        values(table)
    files.capacity_bytes = 1 << 40
    again = reopened(backend)
    assert [info.name for info in again.tables()] == ["other"]
    assert is_gone(again, table.id)


def test_what_somebody_reads_is_kept_until_the_lease_ends() -> None:
    backend, clock, files = filled()
    table = backend.table("t")
    plan = table.pin(None, HOUR_US)
    backend.drop_table("t", keep_us=0)
    backend.store.collect_garbage(at_once=True)
    held = {ref.file.name for tablet in plan.tablets for ref in tablet.references}
    assert held
    assert held <= set(files.list("fragments"))
    with pytest.raises(TableNotFound):
        backend.undrop_table("t")
    clock.advance(HOUR_US)
    backend.collector._collect()
    assert is_gone(backend, table.id)


def test_a_crash_between_catalog_and_meta_leaves_nothing_for_ever() -> None:
    backend, _, _ = filled()
    table = backend.table("t").id
    with armed(AFTER_CATALOG, crash()), pytest.raises(SimulatedCrash):
        backend.drop_table("t", keep_us=0)
    again = reopened(backend)
    assert not is_gone(again, table)
    again.collector._collect()
    assert is_gone(again, table)
    assert values(again.table("other")) == {(b"x", "f"): b"stays"}
