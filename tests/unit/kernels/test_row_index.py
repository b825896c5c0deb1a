"""The index of first rows against looking at all blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.row_index import NOWHERE, RowIndex
from stele.model.cells import Cell
from stele.model.ranges import RowRange
from tests.oracles import strategies
from tests.oracles.fragments import continues, cut, index_of, places


def probes(rows: list[bytes]) -> list[bytes]:
    """Rows that occur, and ones beside them."""
    beside = [change for row in rows for change in (row + b"\x00", row[:-1], row + b"\xff")]
    return [*rows, *beside, b"", b"\xff" * 20]


@settings(max_examples=200)
@given(st.data())
def test_searches_find_the_blocks_that_may_hold_a_row(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    if not cells:
        return
    pieces = cut(cells, data.draw(places(cells)))
    index = index_of(pieces)
    rows = probes(sorted({cell.row for cell in cells}))
    firsts = [piece[0].row for piece in pieces]
    expected = [sum(first <= row for first in firsts) - 1 for row in rows]
    assert [index.find(row) for row in rows] == expected
    last = cells[-1].row
    bounded = RowIndex(firsts, last_row=last)
    assert [bounded.find(row) for row in rows] == [
        NOWHERE if row > last else block for row, block in zip(rows, expected, strict=True)
    ]
    assert index.find_many(pa.array(["x", *rows], pa.binary()).slice(1)).tolist() == expected
    assert [index.continues(block) for block in range(index.blocks)] == continues(pieces)
    assert [index.first_row(block) for block in range(index.blocks)] == firsts


def holds_some(piece: list[Cell], rows: RowRange) -> bool:
    return any(rows.contains(cell.row) for cell in piece)


@settings(max_examples=200)
@given(st.data())
def test_all_blocks_with_rows_of_a_range_are_found(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    if not cells:
        return
    pieces = cut(cells, data.draw(places(cells)))
    index = index_of(pieces)
    edge = st.sampled_from(probes(sorted({cell.row for cell in cells})))
    for _ in range(5):
        start, end = sorted((data.draw(edge), data.draw(edge)))
        rows = RowRange(start, end if end > start else None)
        found = index.overlapping(rows)
        wanted = [number for number, piece in enumerate(pieces) if holds_some(piece, rows)]
        assert set(wanted) <= set(found)
        # At the edges a block may be in doubt, since only first rows are known; no further one.
        assert len(found) <= len(wanted) + 1


def test_a_slice_of_a_larger_array_is_an_index_too() -> None:
    rows = pa.array([b"a", b"common-1", b"common-2", b"common-3", b"z"], pa.binary()).slice(1, 3)
    index = RowIndex(rows)
    assert [index.find(row) for row in (b"a", b"common", b"common-2x", b"d")] == [NOWHERE, -1, 1, 2]


def test_an_index_has_a_block_and_a_flag_for_each() -> None:
    with pytest.raises(AssertionError):
        RowIndex([])
    with pytest.raises(AssertionError):
        RowIndex([b"a", b"b"], np.zeros(1, np.uint8))
