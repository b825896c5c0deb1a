"""The matrix that point reads search."""

from __future__ import annotations

import ctypes

import numpy as np

from stele.kernels.block import COUNT
from stele.kernels.point_index import (
    BLOCK_MATRIX,
    FAMILY_ENTRIES,
    FENCE_END,
    FENCE_END_LENGTH,
    FENCE_START,
    FENCE_START_LENGTH,
    FRAGMENT_WIDTH,
    NO_END,
    RESTRICTIONS_MAX,
    TXN_COLUMN,
    PointFragment,
    PointIndex,
)
from stele.kernels.row_index import INDEX_WIDTH
from stele.model.cells import Cell
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import RowRange
from tests.oracles.blocks import block_of
from tests.oracles.cells import Reference
from tests.oracles.fragments import fragment_of

CELLS = [Cell(b"%d" % number, "f", b"q", 1) for number in range(4)]


def test_a_reference_is_one_row() -> None:
    reference = Reference(CELLS, ColumnSet.of(["f"]), txn=9)
    fragment, table = fragment_of(reference, [2], RowRange(b"1", b"30"))
    index = PointIndex([fragment])
    row = index.matrix[0]
    assert len(row) == FRAGMENT_WIDTH
    assert row[:INDEX_WIDTH].tolist() == fragment.index.numbers.tolist()
    assert row[BLOCK_MATRIX] == table.matrix.ctypes.data
    assert ctypes.string_at(int(row[FENCE_START]), int(row[FENCE_START_LENGTH])) == b"1"
    assert ctypes.string_at(int(row[FENCE_END]), int(row[FENCE_END_LENGTH])) == b"30"
    txns = np.frombuffer(ctypes.string_at(int(row[TXN_COLUMN]), 16), np.int64)
    assert txns.tolist() == [9, 9]


def test_a_run_in_memory_is_a_fragment_of_one_block() -> None:
    fragment = PointFragment.in_memory(block_of(CELLS))
    assert fragment.index.blocks == 1
    assert fragment.table.matrix[0, COUNT] == 4
    assert fragment.table.get(0) is fragment.table.blocks[0]
    assert fragment.numbers[FENCE_END_LENGTH] == NO_END


def test_one_space_of_family_codes() -> None:
    fragments = [PointFragment.in_memory(block_of([Cell(b"r", f, b"q", 1)])) for f in "ba"]
    index = PointIndex(fragments)
    assert index.families == ("a", "b")
    entries = [ctypes.string_at(int(row[FAMILY_ENTRIES]), 1)[0] >> 1 for row in index.matrix]
    assert entries == [1, 0]


def test_an_index_knows_whether_its_references_differ_in_columns() -> None:
    block = block_of(CELLS)
    sets = [ColumnSet.of(["f"]), ColumnSet.of(["f", "g"])]
    index = PointIndex([PointFragment.in_memory(block, columns) for columns in sets])
    assert index.listed
    assert not index.restricted(ColumnSet.of(["f"])).listed
    assert not PointIndex([]).listed


def test_restricted_indexes_are_kept_but_not_for_ever() -> None:
    index = PointIndex([PointFragment.in_memory(block_of(CELLS))])
    assert index.restricted(ALL_COLUMNS) is index
    only = ColumnSet.of(["g"])
    first = index.restricted(only)
    assert index.restricted(ColumnSet.of(["g"])) is first
    for number in range(RESTRICTIONS_MAX):
        index.restricted(ColumnSet.of([f"family{number}"]))
    assert index.restricted(only) is not first
