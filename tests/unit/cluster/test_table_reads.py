"""Which view a read sees, when files go away under it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stele.client.backend import Visibility
from stele.errors import Corruption, NotFound, SnapshotTooOld, TableNotFound
from stele.model.predicates import ScanSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.tablet.import_gate import WAIT_US_DEFAULT
from stele.tablet.table_state import TableView
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    get,
    get_many,
    memory_world,
    open_backend,
    put,
    reopened,
    scan,
)

MISSES = 3


def every_row() -> tuple[RowRange, ...]:
    return (EVERYTHING,)


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
    answer, txn = backend.reading.read(
        state, None, Visibility.DURABLE, every_row, WAIT_US_DEFAULT, read
    )
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
        reading.read(state, None, Visibility.DURABLE, every_row, WAIT_US_DEFAULT, miss)
    with pytest.raises(TableNotFound, match="'t' was dropped"):
        reading.read(state, None, Visibility.DURABLE, every_row, WAIT_US_DEFAULT, miss_after_a_drop)


def test_a_scan_that_is_refused_holds_nothing() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    before = put(table, b"a")
    table.truncate()
    with pytest.raises(SnapshotTooOld):
        backend.reading.scan(table._state, ScanSpec(at=before), WAIT_US_DEFAULT)
    assert backend.reads.oldest(table.id) is None


def test_a_truncation_ends_the_past_of_the_tablets_it_touches_and_of_no_other() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP, (b"h", b"p"))
    for row in (b"a", b"k", b"z"):
        put(table, row, b"old")
    before = table.snapshot("kept")
    table.truncate(RowRange(b"k", b"k\x00"))
    put(table, b"a", b"new")
    assert [cell.value for cell in get(table, b"a", at=before)] == [b"old"]
    assert [cell.row for cell in get_many(table, [b"a", b"z"], at=before)] == [b"a", b"z"]
    apart = (RowRange(b"", b"h"), RowRange(b"p"))
    assert [cell.row for cell in scan(table, at=before, ranges=apart)] == [b"a", b"z"]
    touched: list[Callable[[], object]] = [
        lambda: get(table, b"k", at=before),
        lambda: get(table, b"l", at=before),
        lambda: get_many(table, [b"a", b"l"], at=before),
        lambda: scan(table, at=before),
        lambda: scan(table, at=before, ranges=(RowRange(b"g", b"i"),)),
    ]
    for read in touched:
        with pytest.raises(SnapshotTooOld, match="were truncated") as refused:
            read()
        assert "a snapshot" not in str(refused.value)
    again = reopened(backend).table("t")
    assert [cell.value for cell in get(again, b"a", at=before)] == [b"old"]
    with pytest.raises(SnapshotTooOld, match="were truncated"):
        get(again, b"l", at=before)


def test_a_scan_under_way_goes_on_over_the_truncation_of_a_tablet_that_it_has_passed() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP, (b"h", b"p"))
    for row in (b"a", b"k", b"z"):
        put(table, row)
    passed, ahead = table.scan(ScanSpec()), table.scan(ScanSpec())
    assert [batch.column(0)[0].as_py() for batch in (next(passed), next(ahead))] == [b"a", b"a"]
    table.truncate(RowRange(b"", b"h"))
    assert [batch.column(0)[0].as_py() for batch in passed] == [b"k", b"z"]
    table.truncate(RowRange(b"p"))
    assert next(ahead).column(0)[0].as_py() == b"k"
    with pytest.raises(SnapshotTooOld, match="were truncated"):
        next(ahead)
