"""Merging, reading and compacting cells, done the slow and obvious way.

Everything here works on lists of plain cells and follows the definitions of ``stele.model.cells``
and ``stele.model.predicates`` word by word; nothing is sorted cleverly, nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stele.model.cells import TIMESTAMP_MIN, Cell, Op
from stele.model.column_set import ALL_COLUMNS, ColumnSet

INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Reference:
    """Cells as a reference shows them: it acts on its columns only, and may carry their txn."""

    cells: Sequence[Cell]
    columns: ColumnSet = ALL_COLUMNS
    txn: int | None = None

    def shown(self) -> list[Cell]:
        """The cells that exist for readers of this reference."""
        return [
            cell if self.txn is None else replace(cell, txn=self.txn)
            for cell in self.cells
            if cell.op == Op.ERASE_ROW or cell.family in self.columns
        ]


def sort_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Cell order; cells that are the same in everything but the value appear once."""
    return sorted({cell.key(): cell for cell in cells}.values(), key=Cell.key)


def merge(references: Iterable[Reference]) -> list[Cell]:
    """All cells of all references, each once."""
    return sort_cells(cell for reference in references for cell in reference.shown())


def hides(erasure: Cell, columns: ColumnSet, put: Cell) -> bool:
    """Whether an erasure that came with a column set hides a put."""
    if erasure.row != put.row or erasure.txn <= put.txn:
        return False
    match erasure.op:
        case Op.ERASE_ROW:
            return put.family in columns and erasure.timestamp >= put.timestamp
        case Op.ERASE_FAMILY:
            return erasure.family == put.family and erasure.timestamp >= put.timestamp
        case Op.ERASE_COLUMN:
            return _column(erasure) == _column(put) and erasure.timestamp >= put.timestamp
        case Op.ERASE_CELL:
            return _column(erasure) == _column(put) and erasure.timestamp == put.timestamp
    return False


def _column(cell: Cell) -> tuple[bytes, str, bytes]:
    return (cell.row, cell.family, cell.qualifier)


def visible(references: Sequence[Reference], txn: int) -> list[Cell]:
    """Every put that a read at ``txn`` may see, all versions of all columns."""
    existing = [
        (cell, reference.columns)
        for reference in references
        for cell in reference.shown()
        if cell.txn <= txn
    ]
    erasures = [(cell, columns) for cell, columns in existing if cell.op != Op.PUT]
    puts = sort_cells(cell for cell, _ in existing if cell.op == Op.PUT)
    return [
        put
        for put in puts
        if not any(hides(erasure, columns, put) for erasure, columns in erasures)
        and not any(_replaces(other, put) for other in puts)
    ]


def _replaces(newer: Cell, older: Cell) -> bool:
    return (
        _column(newer) == _column(older)
        and newer.timestamp == older.timestamp
        and newer.txn > older.txn
    )


def read(
    references: Sequence[Reference],
    *,
    txn: int = INT64_MAX,
    versions: int | None = None,
    time_start: int = TIMESTAMP_MIN,
    time_end: int | None = None,
    columns: ColumnSet = ALL_COLUMNS,
) -> list[Cell]:
    """What a read sees, in the order of ``stele.model.predicates``."""
    timely = [
        cell
        for cell in visible(references, txn)
        if cell.family in columns
        and time_start <= cell.timestamp
        and (time_end is None or cell.timestamp < time_end)
    ]
    return [
        cell for cell in timely if versions is None or _newer_in_column(cell, timely) < versions
    ]


def _newer_in_column(cell: Cell, cells: Iterable[Cell]) -> int:
    return sum(
        _column(other) == _column(cell) and other.timestamp > cell.timestamp for other in cells
    )


def purgeable(
    references: Sequence[Reference], horizon: int, clauses: Iterable[tuple[int, int]]
) -> list[Cell]:
    """What a purge policy gives up: judged by what a read at the horizon sees."""
    seen = visible(references, horizon)
    limits = list(clauses)
    return [
        cell
        for cell in seen
        if any(
            _newer_in_column(cell, seen) >= history and cell.timestamp < cutoff
            for history, cutoff in limits
        )
    ]
