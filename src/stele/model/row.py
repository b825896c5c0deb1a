"""One row as users see it: a mapping from columns to their newest values.

A row is a view of a stretch of a ``CELLS`` batch, or of the packed cells a point read leaves, and
decodes what is asked for, when it is asked for. It holds what a read gave: puts only, newest first
in each column.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.model.cells import Cell, batch_to_cells, cells_to_batch
from stele.model.columns import Column, column_name
from stele.model.schema import Schema

ColumnName = str | bytes | Column

Coordinates = tuple[str, bytes]
"""Family and qualifier of cells that were checked when they were written."""


PackedCell = tuple[str, bytes, int, int, bytes]
"""Family, qualifier, timestamp, txn and value."""


class PackedCells(Protocol):
    """The cells of one row, packed: a point read makes no Arrow objects."""

    def __iter__(self) -> Iterator[PackedCell]:
        """The cells in order."""

    def cells(self) -> list[Cell]:
        """The cells as plain values."""


RowCells: TypeAlias = pa.RecordBatch | PackedCells
"""What a read has found of one row."""


def newest_values(cells: RowCells | None) -> dict[Coordinates, bytes]:
    """The newest value of each column."""
    values: dict[Coordinates, bytes] = {}
    if cells is None:
        return values
    for family, qualifier, _, _, value in unpacked(cells):
        values.setdefault((family, qualifier), value)
    return values


def unpacked(cells: RowCells) -> Iterable[PackedCell]:
    """The cells of a row as plain tuples, however they came."""
    if not isinstance(cells, pa.RecordBatch):
        packed: PackedCells = cells
        return packed
    names = ("family", "qualifier", "timestamp", "txn", "value")
    return zip(*(cells.column(name).to_pylist() for name in names), strict=True)


class Row(Mapping[ColumnName, Any]):
    """The cells of one key.

    ``row["info:age"]`` is the newest value, typed if the column is declared and bytes otherwise.
    Iteration gives the names of the columns in order: text, or bytes where a qualifier is not
    UTF-8. Every name may also be given as a :class:`Column`.
    """

    __slots__ = ("_cells", "_schema", "_values", "key")

    def __init__(self, key: bytes, cells: RowCells, schema: Schema | None = None) -> None:
        self.key = key
        self._cells = cells
        self._schema = schema
        self._values: dict[Coordinates, bytes] | None = None

    @property
    def typed_key(self) -> Any:
        """The key as the table's key codec decodes it; its bytes without one."""
        return self.key if self._schema is None else self._schema.key.decode(self.key)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells that were read, with timestamp and txn, in cell order; values as bytes."""
        if isinstance(self._cells, pa.RecordBatch):
            return tuple(batch_to_cells(self._cells))
        return tuple(self._cells.cells())

    def to_arrow(self) -> pa.RecordBatch:
        """The cells as they came, a ``CELLS`` batch."""
        if not isinstance(self._cells, pa.RecordBatch):
            self._cells = cells_to_batch(self._cells.cells())
        return self._cells

    def raw(self, name: ColumnName) -> bytes:
        """The newest value as it is stored, whatever the column's type."""
        return self._raw(Column.parse(name))

    def __getitem__(self, name: ColumnName) -> Any:
        column = Column.parse(name)
        return self._decoded(column, self._raw(column))

    def versions(self, name: ColumnName) -> list[tuple[int, Any]]:
        """Timestamp and value of all versions that were read of a column, newest first."""
        column = Column.parse(name)
        return [
            (timestamp, self._decoded(column, value))
            for family, qualifier, timestamp, _, value in unpacked(self._cells)
            if family == column.family and qualifier == column.qualifier
        ]

    def __iter__(self) -> Iterator[str | bytes]:
        return (column_name(*coordinates) for coordinates in self._columns())

    def __len__(self) -> int:
        return len(self._columns())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str | bytes | Column):
            return False
        column = Column.parse(name)
        return (column.family, column.qualifier) in self._columns()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return self.key == other.key and self.cells == other.cells

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Row({self.key!r}, {list(self)})"

    def to_dict(self) -> dict[str | bytes, Any]:
        """Names and newest values as a plain dictionary."""
        return {name: self[name] for name in self}

    def _columns(self) -> dict[Coordinates, bytes]:
        """The newest value of each column, unpacked once."""
        if self._values is None:
            self._values = newest_values(self._cells)
        return self._values

    def _raw(self, column: Column) -> bytes:
        try:
            return self._columns()[column.family, column.qualifier]
        except KeyError:
            raise KeyError(column.name) from None

    def _decoded(self, column: Column, data: bytes) -> Any:
        typed = None if self._schema is None else self._schema.typed_column(column)
        return data if typed is None else typed.decode(data)


def rows_of(batch: pa.RecordBatch, schema: Schema | None = None) -> Iterator[Row]:
    """The rows of a sorted ``CELLS`` batch, each a view of its stretch."""
    rows = batch.column("row")
    if not len(rows):
        return
    changes = pc.not_equal(rows.slice(0, len(rows) - 1), rows.slice(1))
    inner = np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1
    starts = [0, *inner.tolist(), len(rows)]
    for start, stop in itertools.pairwise(starts):
        yield Row(rows[start].as_py(), batch.slice(start, stop - start), schema)
