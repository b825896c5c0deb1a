"""The index of first rows against looking at all blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import COUNT, Descriptor, Ints
from stele.kernels.compare import prefix_after
from stele.kernels.jit import quick
from stele.kernels.memory import address_of
from stele.kernels.row_index import COMMON, NOWHERE, RowIndex, guess_cell
from stele.model.cells import Cell
from stele.model.ranges import RowRange
from tests.oracles import strategies
from tests.oracles.blocks import block_of
from tests.oracles.fragments import continues, cut, index_of, places


@quick
def guess(index: Ints, descriptor: Descriptor, row: bytes) -> int:
    prefix = prefix_after(address_of(row), len(row), index[COMMON])
    return guess_cell(address_of(index), 0, address_of(descriptor), descriptor[COUNT], prefix)


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
    bounded = data.draw(st.booleans())
    firsts = [piece[0].row for piece in pieces]
    flags = np.array(continues(pieces), np.uint8)
    index = RowIndex(firsts, flags, cells[-1].row if bounded else None)
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


@pytest.mark.parametrize("text", ["user%012d", "%08x-x", "%08X"], ids=["decimal", "hex", "HEX"])
def test_a_guess_is_close_however_rows_are_written_and_spread(text: str) -> None:
    spread = [number * number * 10 for number in range(400)]
    cells = [
        Cell((text % number).encode(), "f", b"%d" % q, 1, b"", txn=1)
        for number in spread
        for q in range(4)
    ]
    index = RowIndex([cells[0].row], last_row=cells[-1].row)
    block = block_of(cells)
    far = [
        guess(index.numbers, block.descriptor, cells[at].row) - at for at in range(0, len(cells), 4)
    ]
    assert max(map(abs, far)) <= 30, "a sample is never further away than that"
    assert np.median(np.abs(far)) <= 4, "one row"


@settings(max_examples=200)
@given(st.data())
def test_a_guess_is_always_a_cell_of_the_block(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    if not cells:
        return
    rows = sorted({cell.row for cell in cells})
    index = RowIndex([rows[0]], last_row=rows[-1])
    block = block_of(cells)
    for row in probes(rows):
        assert 0 <= guess(index.numbers, block.descriptor, row) < len(cells)
