"""Scans (T27, T28, T48–T54)."""

from __future__ import annotations

import gc

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.memory_fs import MemoryFileSystem
from stele.model.cells import Cell, batch_to_cells
from stele.model.columns import ColumnSelection
from stele.model.filters import Filter
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
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
    dropped = table.scan(ScanSpec())
    next(dropped)
    del dropped
    gc.collect()
    assert backend.reads.oldest(table.id) is None


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
