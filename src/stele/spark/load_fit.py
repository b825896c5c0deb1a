"""Types of a DataFrame held against those of a table, before a job begins."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stele.errors import InvalidArgument, InvalidCells
from stele.model.schema import Schema
from stele.spark.load_columns import LoadColumns
from stele.spark.spark_types import spark_arrow_type, spark_schema
from stele.spark.write_form import arrow_schema


def check_types(schema: Schema, columns: LoadColumns, fields: Any) -> None:
    """Refuse a column of a ``StructType`` whose type the table cannot take, whatever is in it."""
    found = arrow_schema(fields)
    if not columns.key_is_bytes:
        parts = schema.key.parts
        if len(columns.key) != len(parts):
            raise InvalidArgument(
                f"the table's key ({schema.key}) has {len(parts)} parts: name as many columns in "
                f"row, not {len(columns.key)}"
            )
        for name, part in zip(columns.key, parts, strict=True):
            try:
                part.encode_array(_nothing(found, name), last=part is parts[-1])
            except (InvalidArgument, InvalidCells) as error:
                raise _misfit(fields[name], f"part {name} of the key", part.arrow) from error
    for column, name in columns.data.items():
        typed = schema.typed_column(column)
        if typed is None or _is_unsigned(typed.type.arrow, found.field(name).type):
            continue
        try:
            typed.type.encode_array(_nothing(found, name))
        except (InvalidArgument, InvalidCells) as error:
            raise _misfit(fields[name], column, typed.type.arrow) from error


def _nothing(schema: pa.Schema, name: str) -> pa.Array:
    return pa.array([], schema.field(name).type)


def _is_unsigned(wanted: pa.DataType, given: pa.DataType) -> bool:
    """Whether decimals stand for ``uint64``, which Spark has not."""
    return bool(wanted == pa.uint64() and pa.types.is_decimal(given))


def _misfit(field: Any, place: str, wanted: pa.DataType) -> InvalidArgument:
    kind = spark_schema(pa.schema([("x", spark_arrow_type(wanted))]))[0].dataType.simpleString()
    return InvalidArgument(
        f"column {field.name!r} is {field.dataType.simpleString()}, and the table declares "
        f"{wanted} for {place}: cast it to {kind}, or read files of text with the reader's option "
        f"inferSchema=true"
    )
