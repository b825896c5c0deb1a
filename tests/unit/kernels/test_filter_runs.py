"""The kernel of filters: where rows begin and what is counted."""

from __future__ import annotations

import pytest

from stele.kernels.filter import ByteFilters, apply_byte_filters
from stele.kernels.merge import merge
from stele.model.cells import Cell
from stele.model.columns import ColumnSelection
from stele.model.filters import Filter, between, equal
from tests.oracles.blocks import block_of, cells_of

CELLS = [
    Cell(b"r%d" % row, family, b"q%d" % column, 1, b"v%d" % (row + column))
    for row in range(4)
    for family in ("f", "g")
    for column in range(3)
]
"""Dealt out so that every row comes from two sources, in runs of one cell."""
SELECTION = merge([block_of(CELLS[::2]), block_of(CELLS[1::2])])


def left(
    *filters: Filter,
    columns: str | None = None,
    cells_per_row: int | None = None,
    rows_max: int | None = None,
) -> tuple[list[Cell], int]:
    selected = ColumnSelection.parse(columns)
    wanted = ByteFilters(SELECTION.table.families, selected, filters, cells_per_row, rows_max)
    selection, rows = apply_byte_filters(SELECTION, wanted)
    cells = cells_of(selection.gather())
    assert selection.cells == len(cells)
    return cells, rows


def test_a_row_that_comes_from_two_sources_is_one_row() -> None:
    assert left() == (CELLS, 4)
    assert left(cells_per_row=2) == (
        [c for c in CELLS if c.family == "f" and c.qualifier < b"q2"],
        4,
    )


@pytest.mark.parametrize("rows_max", [0, 1, 3, 4, 9])
def test_rows_without_cells_are_no_rows(rows_max: int) -> None:
    cells, rows = left(equal("value", b"v1", b"v3"), rows_max=rows_max)
    wanted = [cell for cell in CELLS if cell.value in (b"v1", b"v3")]
    expected = sorted({cell.row for cell in wanted})[:rows_max]
    assert cells == [cell for cell in wanted if cell.row in expected]
    assert rows == len(expected)


def test_all_filters_have_to_hold() -> None:
    filters = (between("row", b"r1", b"r3"), between("qualifier", b"q1"), equal("value", b"v3"))
    cells, rows = left(*filters, columns="g:")
    assert [(cell.row, cell.column) for cell in cells] == [(b"r1", "g:q2"), (b"r2", "g:q1")]
    assert rows == 2
