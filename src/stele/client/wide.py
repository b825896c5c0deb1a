"""Cells as a wide table: one line for each row, one Arrow column for each column of the table.

A stream of batches needs its schema before its first batch. So the columns are those that are
known beforehand: the ones a read names (``info:age``), and of the families it selects (``info:``,
or all) the ones that the table declares. Only these are read. Declared columns have their type and
are called by their label; others hold bytes and are called ``family:qualifier``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.client.encoder import Columns
from stele.errors import InvalidArgument, InvalidCells
from stele.model.arrays import Ints, numbers
from stele.model.columns import Column, ColumnSelection, FamilySelection
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.typed_columns import TypedColumn

KEY_COLUMN = "row"
"""The name of the key in the answer, unless it is composite: then each part has its own."""


@dataclass(frozen=True)
class WideShape:
    """Which columns there are; see the module's docstring."""

    schema: Schema
    columns: tuple[Column, ...]

    @staticmethod
    def of(schema: Schema, selection: ColumnSelection, named: Iterable[Column] = ()) -> WideShape:
        """The shape of a read of ``selection``, in which some columns were named."""
        named = [*named, *single_columns(selection)]
        declared = [
            typed.column
            for typed in schema.columns
            if selection.contains(typed.column.family, typed.column.qualifier)
        ]
        columns = tuple(dict.fromkeys([*declared, *named]))
        if not columns:
            raise InvalidArgument(
                "wide rows need columns that are known before reading: declare them in the schema "
                "or select them by name, as in columns=['info:age']"
            )
        return WideShape(schema, columns)

    @property
    def selection(self) -> ColumnSelection:
        """Exactly the columns of the shape."""
        return ColumnSelection.parse(self.columns)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of every batch."""
        keys, _ = self.schema.key.decode_arrays(pa.array([], pa.binary()))
        fields = [
            pa.field(name, key.type, nullable=False)
            for name, key in zip(self._key_names, keys, strict=True)
        ]
        for column in self.columns:
            typed = self.schema.typed_column(column)
            name = str(column) if typed is None else typed.label
            fields.append(pa.field(name, pa.binary() if typed is None else typed.type.arrow))
        return pa.schema(fields)

    @property
    def _key_names(self) -> tuple[str, ...]:
        return self.schema.key.names if self.schema.key.composite else (KEY_COLUMN,)

    def convert(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """The lines of resolved cells, one version of each column, whole rows."""
        rows = cells.column("row")
        starts = _row_starts(rows)
        lines = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        keys = self._keys(rows.take(pa.array(starts)))
        places = self._places(cells)
        order = np.argsort(places, kind="stable")
        cuts = np.searchsorted(places[order], np.arange(len(self.columns) + 1))
        values = [
            self._values(number, cells, lines, order[cuts[number] : cuts[number + 1]], len(starts))
            for number in range(len(self.columns))
        ]
        return pa.RecordBatch.from_arrays([*keys, *values], schema=self.arrow_schema)

    def _keys(self, rows: pa.Array) -> list[pa.Array]:
        keys, bad = self.schema.key.decode_arrays(rows)
        if bad.any():
            row = rows[int(np.flatnonzero(bad)[0])].as_py()
            raise InvalidCells(
                f"row {row[:64]!r} is not an encoded key ({self.schema.key}): read it as cells"
            )
        return keys

    def _places(self, cells: pa.RecordBatch) -> Ints:
        """For each cell the number of its column in the answer."""
        family, qualifier = cells.column("family"), cells.column("qualifier").dictionary_encode()
        families = family.dictionary.to_pylist()
        qualifiers = qualifier.dictionary.to_pylist()
        number_of = {column: number for number, column in enumerate(self.columns)}
        table = np.full((len(families), len(qualifiers)), len(self.columns), np.int64)
        for column, number in number_of.items():
            if column.family in families and column.qualifier in qualifiers:
                place = families.index(column.family), qualifiers.index(column.qualifier)
                table[place] = number
        places: Ints = table[
            numbers(family.indices, np.int16), numbers(qualifier.indices, np.int32)
        ]
        return places

    def _values(
        self, number: int, cells: pa.RecordBatch, lines: Ints, chosen: Ints, count: int
    ) -> pa.Array:
        """One column of the answer, null where a row has no cell of it."""
        source = np.full(count, -1, np.int64)
        source[lines[chosen]] = chosen
        raw = cells.column("value").take(pa.array(source, mask=source < 0))
        typed = self.schema.typed_column(self.columns[number])
        return raw if typed is None else _decoded(typed, raw, cells, source)


def single_columns(selection: ColumnSelection) -> list[Column]:
    """The columns that a selection has one by one."""
    return [
        Column(part.family, qualifiers.start)
        for part in selection.families or ()
        for qualifiers in part.ranges
        if qualifiers == RowRange.row(qualifiers.start)
    ]


def named_columns(columns: Columns) -> tuple[Column, ...]:
    """The columns that a list of names has one by one: ``f:x``, also beside ``f:``."""
    if columns is None:
        return ()
    one = isinstance(columns, str | bytes | Column | FamilySelection)
    names = (columns,) if one else columns
    singles = (single_columns(ColumnSelection.parse(name)) for name in names)  # type: ignore[union-attr, arg-type]
    return tuple(column for found in singles for column in found)


def _row_starts(rows: pa.Array) -> Ints:
    """Where each row's cells begin."""
    if not len(rows):
        return np.zeros(0, np.int64)
    changes = pc.not_equal(rows.slice(0, len(rows) - 1), rows.slice(1))
    inner = np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1
    starts: Ints = np.concatenate([np.zeros(1, np.int64), inner])
    return starts


def _decoded(typed: TypedColumn, raw: pa.Array, cells: pa.RecordBatch, source: Ints) -> pa.Array:
    values, bad = typed.decode_array(raw)
    if bad.any():
        line = int(np.flatnonzero(bad)[0])
        row = cells.column("row")[int(source[line])].as_py()
        raise InvalidCells(
            f"row {row[:64]!r}, column {str(typed.column)!r} holds {raw[line].as_py()[:32]!r}, "
            f"which is no {typed.type}: read it as cells, with shape='cells', leave the "
            f"column out, or put a value in its place"
        )
    return values


def count_rows(cells: pa.RecordBatch) -> int:
    """How many rows a batch of whole rows has."""
    return len(_row_starts(cells.column("row")))
