"""The two shapes of a DataFrame: cells, one line for each; or wide rows.

*cells* is what the files hold, without what readers do not need: ``row, family, qualifier,
timestamp, txn, value``.

*rows* has the key, then one column for each column that is known before reading: those that the
schema declares and the read selects, in their types, and those that the read names, as bytes. A
family that is selected as a whole, or that the schema names, and that declares no column, is one
column: a map from qualifier to value. Other cells that are selected are in none of these, and rows
that have nothing else are no lines; unless the read gives a name to a column for the *undeclared*,
a map from ``family:qualifier`` to value.

How wide columns are called is a choice: *qualified* ``info:age``, *flat* ``age``, *nested* a struct
``info`` with a field ``age``. Two columns of one name are refused, not told apart by a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.client.wide import WideShape
from stele.errors import InvalidArgument
from stele.model.arrays import Ints
from stele.model.columns import Column, ColumnSelection, FamilySelection
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.spark.spark_types import spark_array, spark_arrow_type

Shape = Literal["rows", "cells"]
Names = Literal["qualified", "flat", "nested"]

SHAPES: tuple[Shape, ...] = ("rows", "cells")
NAMES: tuple[Names, ...] = ("qualified", "flat", "nested")

CELL_FIELDS = pa.schema(
    [
        pa.field("row", pa.binary()),
        pa.field("family", pa.string()),
        pa.field("qualifier", pa.binary()),
        pa.field("timestamp", pa.int64()),
        pa.field("txn", pa.int64()),
        pa.field("value", pa.binary()),
    ]
)
"""The schema of the shape *cells*."""

MAP_TYPE = pa.map_(pa.binary(), pa.binary())


class Converter(Protocol):
    """Turns cells into lines of a DataFrame."""

    @property
    def selection(self) -> ColumnSelection:
        """The columns that have to be read."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of every batch, in types that Spark has."""

    def convert(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """The lines of resolved cells, whole rows."""


def converter(
    schema: Schema,
    selection: ColumnSelection,
    shape: Shape,
    names: Names,
    undeclared: str | None = None,
) -> Converter:
    """What makes lines of a shape of the cells of a read."""
    if shape == "cells":
        return CellsShape(selection)
    return RowsShape.of(schema, selection, names, undeclared)


@dataclass(frozen=True)
class CellsShape:
    """Cells as they are."""

    selection: ColumnSelection

    @property
    def arrow_schema(self) -> pa.Schema:
        return CELL_FIELDS

    def convert(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        columns = [spark_array(cells.column(name)) for name in CELL_FIELDS.names]
        return pa.RecordBatch.from_arrays(columns, schema=CELL_FIELDS)


@dataclass(frozen=True)
class RowsShape:
    """Wide rows: typed and named columns, then maps of whole families, then one of the rest."""

    wide: WideShape
    maps: tuple[str, ...]
    names: Names
    rest: Rest | None = None

    @staticmethod
    def of(
        schema: Schema, selection: ColumnSelection, names: Names, undeclared: str | None = None
    ) -> RowsShape:
        """The shape of a read of ``selection``, with a column for what is ``undeclared``."""
        maps = tuple(_map_families(schema, selection))
        known = _known_columns(schema, selection)
        rest = None if undeclared is None else Rest(undeclared, selection)
        if not known and not maps and rest is None:
            raise InvalidArgument(
                "wide rows need columns that are known before reading: declare them in the schema, "
                "select columns or families by name, as in columns=['info:age', 'anchor:'], name a "
                "column for all others, as in undeclared='others', or read shape='cells'"
            )
        shape = RowsShape(WideShape(schema, known), maps, names, rest)
        _check_unique(shape.places)
        return shape

    @property
    def selection(self) -> ColumnSelection:
        if self.rest is not None:
            return self.rest.selection
        whole = [FamilySelection(family) for family in self.maps]
        return ColumnSelection.parse([*self.wide.columns, *whole])

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        fields = [pa.field(place.name, place.type) for place in self.places]
        if self.names != "nested":
            return pa.schema(fields)
        tops: dict[str | None, list[pa.Field]] = {}
        for place, field in zip(self.places, fields, strict=True):
            tops.setdefault(place.struct, []).append(field)
        alone = tops.pop(None, [])
        return pa.schema([*alone, *(pa.field(name, pa.struct(tops[name])) for name in tops)])

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Each column of a line: what it is called, and in which struct it is, if in any."""
        found = []
        declared = list(self.wide.arrow_schema)
        keys = declared[: len(declared) - len(self.wide.columns)]
        found += [Place(None, field.name, spark_arrow_type(field.type)) for field in keys]
        for column, field in zip(self.wide.columns, declared[len(keys) :], strict=True):
            name = field.name if self.names == "qualified" else _flat(column, field.name)
            struct = column.family if self.names == "nested" else None
            found.append(Place(struct, name, spark_arrow_type(field.type)))
        found += [Place(None, family, MAP_TYPE) for family in self.maps]
        if self.rest is not None:
            found.append(Place(None, self.rest.name, MAP_TYPE))
        return tuple(found)

    def convert(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        wide = self.wide.convert(cells)
        arrays = [spark_array(column) for column in wide.columns]
        if self.maps or self.rest is not None:
            arrays += self._maps(cells, wide.num_rows)
        if self.names == "nested":
            arrays = list(self._nested(arrays))
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _maps(self, cells: pa.RecordBatch, count: int) -> Iterator[pa.Array]:
        lines = _lines(cells.column("row"))
        families = cells.column("family").cast(pa.string())
        for family in self.maps:
            inside = pc.equal(families, family)
            yield _map(cells.column("qualifier"), cells.column("value"), inside, lines, count)
        if self.rest is not None:
            names = pc.binary_join_element_wise(
                families.cast(pa.binary()), cells.column("qualifier"), b":"
            )
            known = [b"%s:%s" % (c.family.encode(), c.qualifier) for c in self.wide.columns]
            elsewhere = pc.or_(
                pc.is_in(names, pa.array(known, pa.binary())),
                pc.is_in(families, pa.array(self.maps, pa.string())),
            )
            yield _map(names, cells.column("value"), pc.invert(elsewhere), lines, count)

    def _nested(self, arrays: Sequence[pa.Array]) -> Iterator[pa.Array]:
        parts: dict[str | None, list[pa.Array]] = {}
        for place, array in zip(self.places, arrays, strict=True):
            parts.setdefault(place.struct, []).append(array)
        yield from parts.pop(None, [])
        for name, members in parts.items():
            yield pa.StructArray.from_arrays(
                members, fields=list(self.arrow_schema.field(name).type)
            )


@dataclass(frozen=True, slots=True)
class Rest:
    """The column of wide rows for what is in no other, and all that has to be read for it."""

    name: str
    selection: ColumnSelection


@dataclass(frozen=True, slots=True)
class Place:
    """One column of a wide row: a key, a column, or a map, in this order."""

    struct: str | None
    name: str
    type: pa.DataType


def _flat(column: Column, label: str) -> str:
    """The name without the family; a label that was given by hand is a name already."""
    return label.partition(":")[2] if label == str(column) else label


def _check_unique(places: Sequence[Place]) -> None:
    """No two columns are called the same."""
    tops = [place.name for place in places if place.struct is None]
    tops += sorted({place.struct for place in places if place.struct is not None})
    members = [f"{place.struct}.{place.name}" for place in places if place.struct is not None]
    for name, count in Counter([*tops, *members]).items():
        if count > 1:
            raise InvalidArgument(
                f"two columns of the DataFrame would be named {name!r}: read them with "
                f"names='qualified', or select fewer columns"
            )


def _known_columns(schema: Schema, selection: ColumnSelection) -> tuple[Column, ...]:
    """Declared columns that are selected, and columns that are selected by name."""
    declared = [
        typed.column
        for typed in schema.columns
        if selection.contains(typed.column.family, typed.column.qualifier)
    ]
    named = [
        Column(part.family, qualifiers.start)
        for part in selection.families or ()
        for qualifiers in part.ranges
        if qualifiers == RowRange.row(qualifiers.start)
    ]
    return tuple(dict.fromkeys([*declared, *named]))


def _map_families(schema: Schema, selection: ColumnSelection) -> Iterator[str]:
    """Families that are read as a whole and declare no column."""
    declared = {typed.column.family for typed in schema.columns}
    if selection.families is None:
        whole = [name for group in schema.groups for name in group.families or ()]
    else:
        whole = [part.family for part in selection.families if part.is_whole_family]
    yield from (family for family in sorted(whole) if family not in declared)


def _lines(rows: pa.Array) -> Ints:
    """For each cell the number of its row, from 0."""
    lines = np.zeros(len(rows), np.int64)
    if len(rows) > 1:
        begins = pc.not_equal(rows.slice(0, len(rows) - 1), rows.slice(1))
        np.cumsum(begins.to_numpy(zero_copy_only=False), out=lines[1:])
    return lines


def _map(
    keys: pa.Array, values: pa.Array, inside: pa.BooleanArray, lines: Ints, count: int
) -> pa.Array:
    """Some cells as one map for each line; rows without any have an empty one."""
    chosen = lines[inside.to_numpy(zero_copy_only=False)]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(chosen, minlength=count), out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets), keys.filter(inside), values.filter(inside), type=MAP_TYPE
    )
