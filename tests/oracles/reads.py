"""What a whole read answers, step by step as ``stele.model.predicates`` lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from stele.model.cells import Cell
from stele.model.filters import Filter
from stele.model.predicates import CellSpec


def holds(one: Filter, cell: Cell) -> bool:
    """Whether one filter holds for a cell."""
    field: bytes = getattr(cell, one.field)
    if one.regex is not None:
        return re.search(one.regex.encode("latin-1"), field) is not None
    assert one.ranges is not None
    return any(part.contains(field) for part in one.ranges)


def filtered(cells: Iterable[Cell], spec: CellSpec) -> list[Cell]:
    """What filters leave of resolved cells, the limit of cells for each row included."""
    kept = [
        cell
        for cell in cells
        if spec.columns.contains(cell.family, cell.qualifier)
        and all(holds(one, cell) for one in spec.filters)
    ]
    return [cell for row in rows_of(kept) for cell in row[: spec.cells_per_row]]


def rows_of(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells row by row."""
    return [list(row) for _, row in groupby(cells, key=lambda cell: cell.row)]


def reversed_rows(cells: Sequence[Cell]) -> list[Cell]:
    """The last row first, its cells in cell order."""
    return [cell for row in reversed(rows_of(cells)) for cell in row]
