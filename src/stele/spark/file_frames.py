"""Files as DataFrames: read with errors of ours, and text as the types that a table declares.

CSV has no types, and JSON none for dates and decimals. Who gives such files to a command has no
place for a cast, so columns of text become what the table declares, as Spark's casts read it. A
text that is no value of its type is refused by its column; none becomes a null, and no digit of a
decimal is lost. A DataFrame that a program made has types of its own and is never cast.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from stele.errors import InvalidArgument
from stele.model.arrow_input import key_columns
from stele.model.key_codec import RAW_KEYS
from stele.model.schema import Schema
from stele.spark.jobs import cause, is_sparks
from stele.spark.load_columns import quoted
from stele.spark.spark_types import spark_arrow_type, spark_schema

FORMATS_OF_TEXT = frozenset({"csv", "json", "xml"})
"""Formats whose columns of text may stand for anything."""

FORMATS = ("csv", "json", "xml", "orc", "parquet", "avro")
"""What the name of a file may end with, to ask whether it is that."""

DECIMAL_DIGITS = 38
"""All that a decimal of Spark's has."""


def read_files(spark: Any, path: str, kind: str, options: Mapping[str, str]) -> Any:
    """Files of a format of Spark's as a DataFrame; one sentence if Spark cannot read them."""
    try:
        return spark.read.format(kind).options(**options).load(path)
    except Exception as error:
        if not is_sparks(error):
            raise
        reason = cause(str(error)).rstrip(".")
        raise InvalidArgument(
            f"Spark cannot read {path!r} as {kind}: {reason}{_hint(path, kind)}"
        ) from error


def _hint(path: str, kind: str) -> str:
    ending = os.path.splitext(path)[1].removeprefix(".").lower()
    return f"; if it is {ending}, say so as the format" if ending in {*FORMATS} - {kind} else ""


def as_declared(
    frame: Any, schema: Schema, row: str | Sequence[str] | None = None, family: str | None = None
) -> Any:
    """The same lines, with columns of text in the types that a table declares for them."""
    wanted = dict(_wanted(schema, row, family))
    texts = [name for name, kind in frame.dtypes if kind == "string"]
    casts = {name: parsed(name, wanted[name]) for name in texts if name in wanted}
    return frame.selectExpr(*(casts.get(name, quoted(name)) for name in frame.columns))


def _wanted(
    schema: Schema, row: str | Sequence[str] | None, family: str | None
) -> Iterator[tuple[str, pa.DataType]]:
    """The types of columns, by every name that files may have for them."""
    for typed in schema.columns:
        if typed.column.family == family:
            yield str(typed.column).partition(":")[2], typed.type.arrow
    for typed in schema.columns:
        yield typed.label, typed.type.arrow
        yield str(typed.column), typed.type.arrow
    if schema.key != RAW_KEYS:
        for name, part in zip(key_columns(schema, row), schema.key.parts, strict=False):
            if not pa.types.is_fixed_size_binary(part.arrow):  # a UUID's text is not its bytes
                yield name, part.arrow


def parsed(name: str, arrow: pa.DataType) -> str:
    """SQL that makes a column of text one of a type; a text that is no such value is refused."""
    wanted = spark_arrow_type(arrow)
    kind = spark_schema(pa.schema([("x", wanted)]))[0].dataType.simpleString()
    text = quoted(name)
    if kind in ("string", "binary"):
        return f"CAST({text} AS {kind}) AS {text}"
    value = f"try_cast({text} AS {kind})"
    if pa.types.is_decimal(wanted):
        scale = DECIMAL_DIGITS - (wanted.precision - wanted.scale)
        exact = f"try_cast({text} AS DECIMAL({DECIMAL_DIGITS}, {scale}))"
        value = f"IF({value} = {exact}, {value}, NULL)"
    shown = name.replace("\\", "").replace("'", "")
    said = f"stele.errors.InvalidArgument: column {shown} has a text that is no {kind}: "
    refusal = f"CAST(raise_error(concat('{said}', left({text}, 80))) AS {kind})"
    return f"coalesce({value}, IF({text} IS NULL, NULL, {refusal})) AS {text}"
