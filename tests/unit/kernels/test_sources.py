"""References as rows of a matrix."""

from __future__ import annotations

import ctypes

import numpy as np

from stele.kernels.block import COUNT, TXNS
from stele.kernels.sources import (
    ACTS_ON,
    CLEAN,
    FAMILY_MAP,
    SAME_CODES,
    Source,
    SourceTable,
    family_table,
    restrict,
)
from stele.model.cells import Cell
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from tests.oracles.blocks import block_of


def source(*families: str, columns: ColumnSet = ALL_COLUMNS, txn: int | None = None) -> Source:
    return Source(block_of([Cell(b"r", name, b"q", 1) for name in families]), columns, txn)


def test_a_table_translates_codes_and_marks_what_is_out_of_bounds() -> None:
    table = family_table(("", "b", "c"), ("", "a", "b", "c"), ColumnSet.of(["a", "b"]))
    assert table.entries.tolist() == [0, 4, 7]
    assert table.acts_on.tolist() == [0, 1, 1, 0]
    assert not table.whole
    assert not table.same_codes
    assert table.entries_address == table.entries.ctypes.data


def test_a_row_erasure_is_never_out_of_bounds() -> None:
    table = family_table(("",), ("",), ColumnSet.of([]))
    assert table.entries.tolist() == [0]
    assert table.whole


def read_bytes(address: int, count: int) -> list[int]:
    return list(ctypes.string_at(int(address), count))


def test_a_row_of_the_matrix() -> None:
    table = SourceTable((), 1)
    slot = table.add(source("a", "b", columns=ColumnSet.of(["b"]), txn=77), clean=True)
    row = table.matrix[slot]
    assert row[COUNT] == 2
    assert row[CLEAN] == 0  # a family is out of bounds
    assert row[SAME_CODES] == 1
    assert read_bytes(row[FAMILY_MAP], 4) == [1, 0, 2, 0]
    assert read_bytes(row[ACTS_ON], 2) == [0, 1]
    assert np.frombuffer(ctypes.string_at(int(row[TXNS]), 16), np.int64).tolist() == [77, 77]


def test_families_that_come_later_change_the_codes_of_all() -> None:
    table = SourceTable((), 1)
    for name in "cab":
        table.add(source(name), clean=True)
    assert table.families == ("a", "b", "c")
    assert [read_bytes(row[FAMILY_MAP], 1)[0] >> 1 for row in table.matrix[:3]] == [2, 0, 1]
    assert table.matrix[:3, SAME_CODES].tolist() == [0, 0, 0]
    assert table.matrix[:3, CLEAN].tolist() == [1, 1, 1]
    assert table.matrix[:3, COUNT].tolist() == [1, 1, 1]


def test_restricting_narrows_the_columns() -> None:
    one = source("a", columns=ColumnSet.of(["a", "b"]))
    assert restrict(one, ALL_COLUMNS) is one
    assert restrict(one, ColumnSet.all_but(["b"])).columns == ColumnSet.of(["a"])


def test_a_table_of_rows_made_elsewhere() -> None:
    made, block = SourceTable((), 1), source("a").block
    made.add(Source(block))
    table = SourceTable.of_rows(("a",), made.matrix, [block], made)
    assert table.blocks == [block]
    assert table.owners == [made]
