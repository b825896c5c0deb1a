"""Scans (T27, T28, T48–T54)."""

from __future__ import annotations

import gc

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import InvalidArgument, SnapshotTooOld
from stele.kernels.stream import CELLS_TARGET
from stele.model.cells import Cell, batch_to_cells, cells_to_batch
from stele.model.columns import ColumnSelection
from stele.model.filters import Filter
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.tablet.active_reads import IDLE_US_MAX
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    erase_row,
    memory_world,
    open_backend,
    put,
    scan,
)

ROWS = [b"row%04d" % number for number in range(1_000)]


def new_table(*borders: bytes) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", TWO_GROUPS, borders)


def fill(table: EmbeddedTable, rows: list[bytes] = ROWS, value: bytes = b"v") -> int:
    batch = MutationBatch()
    for row in rows:
        batch.put(row, "f", b"q", value)
    return table.apply(batch).wait()


def rows_of(cells: list[Cell]) -> list[bytes]:
    return [each.row for each in cells]


def test_t48_a_scan_goes_through_tablets_fragments_and_memory() -> None:
    _, table = new_table(b"row0300", b"row0600")
    fill(table, ROWS[::2])
    table.flush()
    fill(table, ROWS[1::2])
    assert rows_of(scan(table)) == ROWS
    assert rows_of(scan(table, reverse=True)) == ROWS[::-1]


def test_t28_t52_every_scan_has_a_txn_also_an_empty_one() -> None:
    _, table = new_table()
    stream = table.scan(ScanSpec())
    assert stream.txn == table.durable_txn()
    assert list(stream) == []
    txn = put(table, b"a")
    assert table.scan(ScanSpec()).txn == txn


def test_t50_a_scan_sees_one_moment_whatever_happens_meanwhile() -> None:
    backend, table = new_table(b"row0500")
    fill(table)
    table.flush()
    stream = table.scan(ScanSpec())
    first = batch_to_cells(next(stream))
    fill(table, value=b"changed")
    erase_row(table, ROWS[-1])
    table.flush()
    table.split(b"row0700")
    table.join(b"row0500")
    schema = table.schema
    backend.alter_table("t", schema.replace(groups=[Group("one")], version=schema.version + 1))
    table.compact()
    backend.store.collect_garbage()
    backend.store.collect_garbage()
    rest = [each for batch in stream for each in batch_to_cells(batch)]
    assert rows_of([*first, *rest]) == ROWS
    assert {each.value for each in [*first, *rest]} == {b"v"}
    assert {each.value for each in scan(table)} == {b"changed"}


def test_t49_t53_a_reverse_scan_survives_a_split_and_a_join() -> None:
    _, table = new_table(b"row0500")
    fill(table)
    stream = table.scan(ScanSpec(reverse=True))
    found = batch_to_cells(next(stream))
    table.split(b"row0200")
    table.join(b"row0500")
    found += [each for batch in stream for each in batch_to_cells(batch)]
    assert rows_of(found) == ROWS[::-1]


def test_time_travel() -> None:
    _, table = new_table()
    first = put(table, b"a", b"1")
    second = put(table, b"a", b"2")
    erased = erase_row(table, b"a")
    for _ in range(2):
        assert scan(table, at=first - 1) == []
        assert [each.value for each in scan(table, at=first)] == [b"1"]
        assert [each.value for each in scan(table, at=second)] == [b"2"]
        assert [each.value for each in scan(table, at=second, versions=None)] == [b"2", b"1"]
        assert scan(table, at=erased) == []
        table.flush()


def test_ranges_limits_and_columns() -> None:
    _, table = new_table(b"row0500")
    fill(table)
    put(table, b"row0001", family="g")
    table.flush()
    ranges = (RowRange(b"row0010", b"row0013"), RowRange(b"row0499", b"row0502"))
    expected = [ROWS[n] for n in (10, 11, 12, 499, 500, 501)]
    assert rows_of(scan(table, ranges=ranges)) == expected
    assert rows_of(scan(table, ranges=ranges, reverse=True)) == expected[::-1]
    assert rows_of(scan(table, ranges=ranges, limit=4)) == expected[:4]
    assert rows_of(scan(table, ranges=ranges, limit=4, reverse=True)) == expected[:1:-1]
    only_g = ColumnSelection.parse("g:")
    assert rows_of(scan(table, columns=only_g)) == [b"row0001"]
    assert scan(table, columns=ColumnSelection.parse("h:")) == []


@pytest.mark.parametrize("flushed", [False, True])
def test_filters(flushed: bool) -> None:
    _, table = new_table()
    for number in range(5):
        put(table, b"row%d" % number, b"value%d" % (number % 2))
    if flushed:
        table.flush()
    wanted = Filter("value", regex="value1")
    assert rows_of(scan(table, filters=(wanted,))) == [b"row1", b"row3"]
    in_rows = Filter("row", (RowRange(b"row2", b"row4"),))
    assert rows_of(scan(table, filters=(in_rows,))) == [b"row2", b"row3"]


def test_a_scan_streams_and_reads_only_what_is_asked_for() -> None:
    _, table = new_table()
    fill(table)
    table.flush()
    stream = table.scan(ScanSpec())
    next(stream)
    assert stream.explain()["blocks_from_disk"] < 4, "1000 rows are four blocks of 256"
    stream.close()
    narrow = table.scan(ScanSpec(ranges=(RowRange(b"row0300", b"row0301"),)))
    assert sum(batch.num_rows for batch in narrow) == 1
    told = narrow.explain()
    assert (told["tablets"], told["blocks_from_disk"], told["cells"]) == (1, 1, 1)
    assert len(told["fragments"]) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_the_first_batch_of_a_scan_costs_the_same_however_large_the_table(reverse: bool) -> None:
    """Both tables have more cells than a batch, one of them twice as many as the other."""
    read = []
    for thousands in (40, 80):
        _, table = new_table()
        for file in range(2):
            for part in range(thousands):
                fill(table, [b"%02d %s %d" % (part, row, file) for row in ROWS])
            table.flush()
        stream = table.scan(ScanSpec(reverse=reverse))
        assert next(stream).num_rows <= CELLS_TARGET
        told = stream.explain()
        read.append(told["blocks_from_disk"] + told["blocks_from_cache"])
        assert len(told["fragments"]) == 2
        stream.close()
    assert read[0] == read[1]
    assert read[0] <= CELLS_TARGET // 256 + 4, "blocks of 256 cells, and one more of each source"


def test_fragments_outside_of_the_columns_are_not_opened() -> None:
    _, table = new_table()
    fill(table)
    put(table, b"row0001", family="g")
    table.flush()
    stream = table.scan(ScanSpec(columns=ColumnSelection.parse("g:")))
    list(stream)
    assert len(stream.explain()["fragments"]) == 1


def test_a_scan_lets_go_when_it_ends_is_closed_or_fails() -> None:
    backend, table = new_table()
    fill(table)
    table.flush()
    ended = table.scan(ScanSpec())
    list(ended)
    closed = table.scan(ScanSpec())
    next(closed)
    assert backend.reads.oldest(table.id) == closed.txn
    closed.close()
    closed.close()
    assert list(closed) == []
    assert backend.reads.oldest(table.id) is None


def test_t28_a_scan_that_is_dropped_lets_go_at_once() -> None:
    backend, table = new_table()
    fill(table)
    table.flush()
    gc.disable()  # nobody waits for the collector of cycles
    try:
        dropped = table.scan(ScanSpec())
        next(dropped)
        assert backend.reads.oldest(table.id) == dropped.txn
        del dropped
        assert backend.reads.oldest(table.id) is None
    finally:
        gc.enable()


def test_t27_a_scan_that_was_forgotten_loses_its_snapshot() -> None:
    backend = open_backend(memory_world())
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    table = backend.create_table("t", TWO_GROUPS.replace(history=0), [b"row0500"])
    fill(table)
    table.flush()
    patient, forgotten = table.scan(ScanSpec()), table.scan(ScanSpec())
    next(patient)
    next(forgotten)
    erase_row(table, ROWS[-1])
    clock.advance(IDLE_US_MAX)
    batches = [next(patient)]
    table.compact()
    clock.advance(IDLE_US_MAX)
    batches += patient
    assert ROWS[-1] in rows_of([each for batch in batches for each in batch_to_cells(batch)])
    table.compact()
    with pytest.raises(SnapshotTooOld):
        next(forgotten)
    assert list(forgotten) == [], "it is closed"


def test_a_row_of_many_blocks_is_one_row() -> None:
    _, table = new_table()
    for row in (b"a", b"b", b"c"):
        batch = MutationBatch()
        for number in range(700 if row == b"b" else 1):
            batch.put(row, "f", b"%04d" % number, b"v")
        table.apply(batch).wait()
    table.flush()
    for reverse in (False, True):
        batches = list(table.scan(ScanSpec(reverse=reverse)))
        assert [batch.column("row").to_pylist().count(b"b") for batch in batches].count(0) == (
            len(batches) - 1
        ), "no row is cut between two batches"
        assert sum(batch.num_rows for batch in batches) == 702


# Modes: rows of three tablets, of which the scan has read one batch, or one tablet.


def filled_tablets() -> tuple[EmbeddedTable, list[list[bytes]]]:
    """A table of two tablets, of three blocks each, and their rows."""
    _, table = new_table(b"row0500")
    fill(table)
    table.flush()
    return table, [ROWS[:500], ROWS[500:]]


def changed_rows(table: EmbeddedTable, mode: str, *, durable: bool, reverse: bool) -> set[bytes]:
    """Which rows show a change that was made after the first batch."""
    stream = table.scan(ScanSpec(mode=mode, reverse=reverse))  # type: ignore[arg-type]
    found = batch_to_cells(next(stream))
    batch = MutationBatch()
    for row in ROWS:
        batch.put(row, "f", b"q", b"new")
    pending = table.apply(batch)
    if durable:
        pending.wait()
    before = stream.txn
    found += [each for batch in stream for each in batch_to_cells(batch)]
    assert rows_of(found) == (ROWS[::-1] if reverse else ROWS), "each row once, in order"
    news = {each.row for each in found if each.value == b"new"}
    assert (stream.txn > before) == bool(news), "the txn says so"
    pending.wait()
    return news


@pytest.mark.parametrize("reverse", [False, True])
def test_t50_snapshot_shows_one_moment(reverse: bool) -> None:
    table, _ = filled_tablets()
    assert changed_rows(table, "snapshot", durable=True, reverse=reverse) == set()


@pytest.mark.parametrize("reverse", [False, True])
def test_t48_any_moves_on_with_each_tablet(reverse: bool) -> None:
    table, tablets = filled_tablets()
    expected = tablets[0] if reverse else tablets[1]
    assert changed_rows(table, "any", durable=True, reverse=reverse) == set(expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_t51_t54_isolated_moves_on_with_each_batch(reverse: bool) -> None:
    table, _ = filled_tablets()
    news = changed_rows(table, "isolated", durable=True, reverse=reverse)
    first_batch = ROWS[::-1] if reverse else ROWS
    assert len(news) > 500, "also the rest of the tablet that was being read"
    assert first_batch[0] not in news


def test_t51_latest_shows_what_is_not_durable_yet_and_nobody_else_does() -> None:
    for mode in ("any", "isolated", "snapshot"):
        table, _ = filled_tablets()
        assert changed_rows(table, mode, durable=False, reverse=False) == set()
    table, _ = filled_tablets()
    assert len(changed_rows(table, "latest", durable=False, reverse=False)) > 500


def test_t52_the_modes_that_move_on_hold_nothing_back() -> None:
    backend, table = new_table()
    fill(table)
    for mode in ("any", "isolated", "latest"):
        stream = table.scan(ScanSpec(mode=mode))
        assert stream.txn == table.durable_txn()
        next(stream)
        assert backend.reads.oldest(table.id) is None


@pytest.mark.parametrize("mode", ["any", "isolated", "latest"])
def test_t8_t29_t49_no_mode_minds_changes_of_the_layout(mode: str) -> None:
    backend, table = new_table(b"row0500")
    fill(table)
    table.flush()
    stream = table.scan(ScanSpec(mode=mode))  # type: ignore[arg-type]
    found = batch_to_cells(next(stream))
    for step in (
        lambda: fill(table, value=b"new"),
        table.flush,
        lambda: table.split(b"row0700"),
        table.compact,
        lambda: table.join(b"row0500"),
        backend.store.collect_garbage,
    ):
        step()
        found += batch_to_cells(next(stream, cells_to_batch([])))
    found += [each for batch in stream for each in batch_to_cells(batch)]
    assert rows_of(found) == ROWS
    assert found[-1].value == b"new"


@pytest.mark.parametrize("mode", ["any", "isolated", "latest"])
def test_limits_and_ranges_hold_in_every_mode(mode: str) -> None:
    _, table = new_table(b"row0500")
    fill(table)
    ranges = (RowRange(b"row0010", b"row0013"), RowRange(b"row0499", b"row0502"))
    for reverse in (False, True):
        stream = table.scan(ScanSpec(ranges=ranges, limit=5, mode=mode, reverse=reverse))  # type: ignore[arg-type]
        rows: list[bytes] = []
        for batch in stream:
            rows += rows_of(batch_to_cells(batch))
            fill(table)
        every = [ROWS[n] for n in (10, 11, 12, 499, 500, 501)]
        assert rows == (every[::-1] if reverse else every)[:5]


def test_a_moment_and_a_mode_that_moves_on_exclude_each_other() -> None:
    with pytest.raises(InvalidArgument, match="choose one"):
        ScanSpec(mode="latest", at=5)
    with pytest.raises(InvalidArgument, match="any, isolated, snapshot, latest"):
        ScanSpec(mode="newest")  # type: ignore[arg-type]


def test_t71_a_removed_family_is_not_scanned_from_memory_either() -> None:
    backend = open_backend(memory_world(MemoryFileSystem()))
    table = backend.create_table("t", Schema([Group("f", ["f"]), Group("g", ["g"])]))
    put(table, b"a", family="f")
    put(table, b"a", family="g")
    schema = table.schema
    backend.alter_table("t", schema.replace(groups=[Group("f", ["f"])], version=2))
    assert {each.family for each in scan(table)} == {"f"}
    table.flush()
    assert {each.family for each in scan(table)} == {"f"}
