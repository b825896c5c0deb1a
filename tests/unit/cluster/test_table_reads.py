"""Which view a read sees, when files go away under it."""

from __future__ import annotations

import pytest

from stele.client.backend import Visibility
from stele.errors import Corruption, NotFound, SnapshotTooOld, TableNotFound
from stele.model.predicates import ScanSpec
from stele.tablet.import_gate import WAIT_US_DEFAULT
from stele.tablet.table_state import TableView
from tests.unit.tablet.engine_support import ONE_GROUP, memory_world, open_backend, put

MISSES = 3


def test_a_read_takes_a_newer_view_when_a_file_of_the_old_one_was_collected() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a")
    seen: list[TableView] = []

    def read(view: TableView, txn: int) -> int:
        seen.append(view)
        if len(seen) < MISSES:
            put(table, b"a")
            table.flush()
            raise NotFound("collected")
        return txn

    state = table._state
    answer, txn = backend.reading.read(state, None, Visibility.DURABLE, WAIT_US_DEFAULT, read)
    assert answer == txn
    assert len({id(view.layout) for view in seen}) == MISSES


def test_a_file_that_the_newest_layout_names_is_damage_unless_the_table_was_dropped() -> None:
    backend = open_backend(memory_world())
    state = backend.create_table("t", ONE_GROUP)._state
    reading = backend.reading

    def miss(_view: TableView, _txn: int) -> None:
        raise NotFound("no such file")

    def miss_after_a_drop(_view: TableView, _txn: int) -> None:
        backend.drop_table("t")
        raise NotFound("no such file")

    with pytest.raises(Corruption, match="'t' refers to is missing"):
        reading.read(state, None, Visibility.DURABLE, WAIT_US_DEFAULT, miss)
    with pytest.raises(TableNotFound, match="'t' was dropped"):
        reading.read(state, None, Visibility.DURABLE, WAIT_US_DEFAULT, miss_after_a_drop)


def test_a_scan_that_is_refused_holds_nothing() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    before = put(table, b"a")
    table.truncate()
    with pytest.raises(SnapshotTooOld):
        backend.reading.scan(table._state, ScanSpec(at=before), WAIT_US_DEFAULT)
    assert backend.reads.oldest(table.id) is None
