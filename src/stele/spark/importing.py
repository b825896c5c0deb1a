"""``ss.import_``: what ``ss.export`` has written, or files that look like it, back into a table.

The table's schema says what a column is; a file says only what its format can. Text becomes numbers
and times as Spark's casts read them, and bytes by the rule that export wrote them with. The rest is
a bulk load: all of it at one txn, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stele.errors import InvalidArgument
from stele.model.columns import Column
from stele.model.key_codec import RAW_KEYS
from stele.model.schema import Schema
from stele.spark.exporting import OPTIONS, TEXT_FORMATS, BinaryRule, check_export
from stele.spark.file_frames import read_files
from stele.spark.load_columns import CELL_PARTS, quoted
from stele.spark.load_progress import Show
from stele.spark.loading import Report, bulk_load
from stele.spark.reading import TableLike, opened
from stele.spark.spark_types import spark_arrow_type, spark_schema

CELLS = frozenset({"row", *(name for name, _, _ in CELL_PARTS)})
"""Columns that only an export of cells has all of."""


READ_OPTIONS: Mapping[str, Mapping[str, str]] = {
    # A text may have lines. And Spark takes an empty text for a null unless nulls are said to be
    # something else, which no text is.
    "csv": {**OPTIONS["csv"], "multiLine": "true", "nullValue": "\0null\0"},
    "json": OPTIONS["json"],
}
"""With which an export is read, unless others are given."""


def import_(
    spark: Any,
    path: str,
    table: TableLike,
    *,
    format: str = "parquet",  # noqa: A002 -- what Spark calls it
    binary: BinaryRule | None = None,
    options: Mapping[str, str] | None = None,
    job_id: str | None = None,
    progress: bool | Show | None = None,
) -> Report:
    """Load files that :func:`export` wrote, rows or cells, into a table that is there already.

    ``format`` and ``binary`` are those of the export. CSV is taken to have a header, unless
    ``options`` say otherwise. Timestamps come back with cells; rows get the time of the import.
    """
    rule = check_export(format, "error", binary)
    frame = _read(spark, path, format, {**READ_OPTIONS.get(format, {}), **(options or {})})
    with opened(table) as (handle, _):
        columns = Imported(handle.schema, format in TEXT_FORMATS, rule)
        cells = set(frame.columns) >= CELLS
        chosen = columns.cells(frame.schema) if cells else columns.rows(frame.schema)
        return bulk_load(
            spark,
            frame.selectExpr(*chosen),
            handle,
            shape="cells" if cells else "rows",
            job_id=job_id,
            progress=progress,
        )


def _read(spark: Any, path: str, kind: str, options: Mapping[str, str]) -> Any:
    """The files; everything that is no map or struct as text, where a format has only that."""
    frame = read_files(spark, path, kind, options)
    if kind not in TEXT_FORMATS or kind == "csv":
        return frame
    from pyspark.sql.types import MapType, StringType, StructField, StructType

    text = StringType()
    fields = [
        StructField(
            field.name,
            MapType(text, text) if isinstance(field.dataType, StructType) else text,
        )
        for field in frame.schema
    ]
    return spark.read.format(kind).schema(StructType(fields)).options(**options).load(path)


@dataclass(frozen=True, slots=True)
class Imported:
    """How columns of files become columns of a DataFrame that can be loaded."""

    schema: Schema
    is_text: bool
    """Whether the format has no types of its own."""
    rule: BinaryRule

    def cells(self, fields: Any) -> list[str]:
        """SQL for a DataFrame of cells."""
        names = [field.name for field in fields]
        chosen = [self._bytes(name) for name in ("row", "qualifier", "value")]
        chosen.append("family")
        if "timestamp" in names:
            chosen.append("CAST(timestamp AS BIGINT) AS timestamp")
        known = ("row", "family", "qualifier", "value", "timestamp", "txn")
        # The load knows ops, and refuses all others by their names.
        return chosen + [quoted(name) for name in names if name not in known]

    def rows(self, fields: Any) -> list[str]:
        """SQL for a DataFrame of wide rows."""
        from pyspark.sql.types import MapType

        keys = self._key_types()
        missing = [name for name in keys if name not in fields.fieldNames()]
        if missing:
            raise InvalidArgument(
                f"the files have no column {missing[0]!r} of the key; they have "
                f"{', '.join(fields.fieldNames())}"
            )
        chosen = []
        for field in fields:
            if isinstance(field.dataType, MapType):
                self._check_map(field.name)
                chosen.append(self._map(field.name))
            elif field.name in keys:
                chosen.append(self._typed(field.name, keys[field.name]))
            else:
                chosen.append(self._typed(field.name, self._type_of(field.name)))
        return chosen

    def _check_map(self, family: str) -> None:
        """Text of a map is bytes: columns with types of their own would not be what they were."""
        if self.is_text and any(typed.column.family == family for typed in self.schema.columns):
            raise InvalidArgument(
                f"column {family!r} has the columns of a family in it, and the table declares "
                f"types for some of them: export with names='qualified'"
            )

    def _key_types(self) -> dict[str, pa.DataType]:
        key = self.schema.key
        if key == RAW_KEYS:
            return {"row": pa.binary()}
        return dict(zip(key.names, (part.arrow for part in key.parts), strict=True))

    def _type_of(self, name: str) -> pa.DataType:
        for typed in self.schema.columns:
            if name in (typed.label, str(typed.column)):
                return typed.type.arrow
        Column.parse(name)
        return pa.binary()

    def _typed(self, name: str, kind: pa.DataType) -> str:
        wanted = spark_arrow_type(kind)
        if pa.types.is_binary(wanted):
            return self._bytes(name)
        if not self.is_text:
            return quoted(name)
        spark_type = spark_schema(pa.schema([("x", wanted)]))[0].dataType.simpleString()
        return f"CAST({quoted(name)} AS {spark_type}) AS {quoted(name)}"

    def _bytes(self, name: str) -> str:
        return f"{self._from_text(quoted(name))} AS {quoted(name)}"

    def _map(self, name: str) -> str:
        if self.rule == "native":
            return quoted(name)
        keys = f"transform_keys({quoted(name)}, (k, v) -> {self._from_text('k')})"
        return f"transform_values({keys}, (k, v) -> {self._from_text('v')}) AS {quoted(name)}"

    def _from_text(self, value: str) -> str:
        if self.rule == "base64":
            return f"unbase64({value})"
        return f"unhex({value})" if self.rule == "hex" else f"CAST({value} AS BINARY)"
