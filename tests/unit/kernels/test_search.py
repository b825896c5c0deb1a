"""Bisection in a block against looking at every cell."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.search import row_lower_bound, row_spans, row_upper_bound, slice_rows
from stele.model.ranges import EVERYTHING, RowRange
from tests.oracles import strategies
from tests.oracles.blocks import FORMS, block_of, cells_of


@settings(max_examples=200)
@given(st.data())
def test_bounds_and_spans(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    cells = data.draw(strategies.cell_sets(world))
    keys = [*world.rows, *(row + b"\x00" for row in world.rows), b"", b"m", b"\xff" * 30]
    rows = [cell.row for cell in cells]
    lower = [sum(row < key for row in rows) for key in keys]
    upper = [sum(row <= key for row in rows) for key in keys]
    for form in FORMS:
        block = form(cells)
        assert [row_lower_bound(block, key) for key in keys] == lower
        assert [row_upper_bound(block, key) for key in keys] == upper
        for several in (keys, pa.array([b"x", *keys], pa.binary()).slice(1)):
            starts, stops = row_spans(block, several)
            assert (starts.tolist(), stops.tolist()) == (lower, upper)


@settings(max_examples=100)
@given(st.data())
def test_a_slice_has_the_rows_of_its_range(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    cells = data.draw(strategies.cell_sets(world))
    start, end = sorted(data.draw(st.tuples(*[st.sampled_from([b"", *world.rows, b"zz"])] * 2)))
    for rows in (RowRange(start), RowRange(start, end + b"\x00"), EVERYTHING):
        inside = [cell for cell in cells if rows.contains(cell.row)]
        assert cells_of([slice_rows(block_of(cells), rows)]) == inside


def test_a_slice_that_holds_everything_is_the_block_itself() -> None:
    block = block_of([])
    assert slice_rows(block, EVERYTHING) is block
