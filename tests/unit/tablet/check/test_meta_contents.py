"""META is read from files and log as recovery would, and nothing is touched."""

from __future__ import annotations

import pytest

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import NotFound
from stele.tablet.check.meta_contents import MetaContents
from stele.tablet.config import TabletConfig
from stele.tablet.config_store import RootFile
from stele.tablet.meta_rows import config_from_cells
from stele.tablet.meta_table import META0, META1
from tests.unit.tablet.engine_support import TWO_GROUPS, memory_world, open_backend, put


def meta1_tablets(files: MemoryFileSystem) -> list[TabletConfig]:
    contents = MetaContents(files, META0, [RootFile(files).load()])
    return [config_from_cells(key, cells) for key, cells in contents.rows()]


def test_the_newest_configs_come_from_the_log_and_from_fragments() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("users", TWO_GROUPS, [b"m"])
    backend._meta_maintenance.flush(backend.store.meta.table(META1))
    put(table, b"a")
    table.flush()
    at = backend.store.meta.durable_txn
    table.split(b"c")
    expected = backend.store.meta1.all_configs()
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    contents = MetaContents(files, META1, meta1_tablets(files))
    assert [config_from_cells(*row) for row in contents.rows()] == list(expected)
    before = [config_from_cells(*row) for row in contents.rows(at)]
    assert before == list(backend.store.meta1.all_configs(at))
    assert len(before) == len(expected) - 1


def test_a_log_that_is_gone_is_an_error() -> None:
    lost = TabletConfig("x", META1, meta1_tablets_of_a_new_store()[0].rows, log="log/gone")
    with pytest.raises(NotFound, match="log/gone"):
        MetaContents(MemoryFileSystem(), META1, [lost])


def meta1_tablets_of_a_new_store() -> list[TabletConfig]:
    backend = open_backend(memory_world())
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    return meta1_tablets(files)
