"""Wide rows as one native Parquet scan: files of the columns layout hold the lines as they are.

A file of the columns layout has a typed Parquet column for each declared column, with the newest
visible value of every row. Spark reads it alone if that is exactly what is asked for: declared
columns in the types they have now, or in former ones that Spark widens, no filters, no times, a key
that is bytes or text.

What a file holds is in its own index, which the driver reads: one small read for each file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.key_codec import RAW_KEYS, KeyCodec
from stele.model.predicates import ScanSpec
from stele.model.typed_columns import TypedColumn
from stele.spark.native import Frame, parquet_files, row_condition
from stele.spark.shapes import Converter, Place, RowsShape
from stele.spark.spark_types import spark_arrow_type
from stele.storage.fragment_columns_format import ROW, NativeColumn, NativePart
from stele.storage.fragment_format import COLUMNS_LAYOUT, FragmentInfo

_WIDENED = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.uint8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.uint16(): (pa.int32(), pa.int64()),
    pa.uint32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}
"""What Spark's Parquet reader widens by itself, file by file."""

TEXT_KEYS = KeyCodec.parse("string")
"""Keys that are their own UTF-8."""

ReadPart = Callable[[FragmentInfo], NativePart]
"""Reads what a file of the columns layout says of its native columns."""


class NativeRows:
    """Decides and reads for one request; remembers what files say of themselves."""

    def __init__(self, shape: RowsShape, read_part: ReadPart):
        self._shape = shape
        self._read_part = read_part
        self._parts: dict[str, NativePart] = {}

    def holds_lines(self, file: FragmentInfo) -> bool:
        """Whether the lines of the read are in a file as they are."""
        if file.layout != COLUMNS_LAYOUT:
            return False
        part = self._parts[file.name] = self._read_part(file)
        if not part.complete:
            return False
        names = {*map(str, self._shape.wide.columns), *(column.name for column in part.columns)}
        if not _told_apart(names):
            return False  # Spark would take what another column has, where this one is missing
        stored = {column.column: column for column in part.columns}
        for column in self._shape.wide.columns:
            typed = self._shape.wide.schema.typed_column(column)
            assert typed is not None
            if column in stored and not _reads_as(stored[column], typed):
                return False
            if column not in stored and file.companion is not None:
                return False
        return True

    def frame(
        self, spark: Any, location: str, files: Sequence[FragmentInfo], spec: ScanSpec
    ) -> Frame:
        """The lines of files that were found to hold them."""
        places = self._shape.places
        columns = self._shape.wide.columns
        key, *values = places
        stored = [
            pa.field(str(column), place.type) for column, place in zip(columns, values, strict=True)
        ]
        schema = pa.schema([pa.field(ROW, pa.binary()), *stored])
        frame = parquet_files(spark, location, files, schema)
        for wanted in (row_condition(files, spec), self._presence(files)):
            frame = frame if wanted is None else frame.where(wanted)
        return frame.selectExpr(*_expressions(key, values, schema.names[1:]))

    def _presence(self, files: Sequence[FragmentInfo]) -> str | None:
        """Rows that have none of the columns of the read are no lines of it."""
        wanted = set(self._shape.wide.columns)
        if all(
            wanted.issuperset(column.column for column in self._parts[file.name].columns)
            for file in files
        ):
            return None
        present = (f"{quoted(str(column))} IS NOT NULL" for column in self._shape.wide.columns)
        return " OR ".join(present)


def native_rows(shape: Converter, spec: ScanSpec, read_part: ReadPart) -> NativeRows | None:
    """What reads wide rows natively; ``None`` when no file can hold lines of this read."""
    if not isinstance(shape, RowsShape) or shape.maps or shape.rest or spec.filters:
        return None
    if (spec.time_start, spec.time_end) != (TIMESTAMP_MIN, TIMESTAMP_MAX):
        return None
    schema = shape.wide.schema
    if schema.key not in (RAW_KEYS, TEXT_KEYS):
        return None
    if any(schema.typed_column(column) is None for column in shape.wide.columns):
        return None
    if not _told_apart({*map(str, shape.wide.columns)}):
        return None
    return NativeRows(shape, read_part)


def _reads_as(stored: NativeColumn, typed: TypedColumn) -> bool:
    """Whether Spark gives what a file has of a column as the column is declared now."""
    if stored.type == typed.type.name:
        return True
    if stored.id != typed.id:
        return False  # declared anew: its bytes of before have no meaning now
    return spark_arrow_type(typed.type.arrow) in _WIDENED.get(stored.value_type.arrow, ())


def _told_apart(names: set[str]) -> bool:
    """Whether Spark, which finds columns by name, does: to it ``A`` is ``a``."""
    return len({name.lower() for name in names}) == len(names)


def native_part(metadata: Any) -> NativePart:
    """The native part of a file whose layout says that it has one."""
    part = metadata.native
    assert not isinstance(part, msgspec.UnsetType)
    found: NativePart = part
    return found


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


def _expressions(key: Place, values: Sequence[Place], stored: Sequence[str]) -> list[str]:
    """What selects the columns of a line from those of the files."""
    kind = "STRING" if key.type == pa.string() else "BINARY"
    found = [f"CAST({quoted(ROW)} AS {kind}) AS {quoted(key.name)}"]
    structs: dict[str, list[str]] = {}
    for place, name in zip(values, stored, strict=True):
        if place.struct is None:
            found.append(f"{quoted(name)} AS {quoted(place.name)}")
        else:
            member = f"{quoted(name)} AS {quoted(place.name)}"
            structs.setdefault(place.struct, []).append(member)
    found += [f"struct({', '.join(each)}) AS {quoted(name)}" for name, each in structs.items()]
    return found
