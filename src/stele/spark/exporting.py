"""``ss.export``: a table, or a part of it, in any format that Spark writes.

Formats of text have no bytes, and CSV has no nesting. Bytes become text there by a rule that gives
them back: ``utf8`` refuses what is no text instead of replacing it, ``base64`` and ``hex`` take
everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stele.errors import AlreadyExists, InvalidArgument, SteleError, Unavailable
from stele.spark.jobs import cause
from stele.spark.native import Frame
from stele.spark.pinning import KEEPER
from stele.spark.reading import TableLike, check_arguments, read_pinned, table_name

BinaryRule = Literal["native", "utf8", "base64", "hex"]
BINARY_RULES: tuple[BinaryRule, ...] = ("native", "utf8", "base64", "hex")

Mode = Literal["error", "overwrite", "append"]
MODES: tuple[Mode, ...] = ("error", "overwrite", "append")

TEXT_FORMATS = frozenset({"csv", "json", "xml", "text"})
FLAT_FORMATS = frozenset({"csv", "text"})


_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""With all digits: what Spark writes by itself ends at milliseconds."""

_CSV = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
"""As RFC 4180 has it; by itself Spark trims text and escapes quotes but not what escapes them."""

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "csv": {**_CSV, **_TIMES},
    "json": _TIMES,
    "xml": _TIMES,
}
"""Of formats of text, unless others are given: so that an import finds what was there."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    path: str
    format: str
    lines: int


def export(
    spark: Any,
    table: TableLike,
    path: str,
    *,
    format: str = "parquet",  # noqa: A002 -- what Spark calls it
    mode: Mode = "error",
    binary: BinaryRule | None = None,
    options: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Exported:
    """Write a table to ``path`` in a format of Spark's; ``arguments`` are those of :func:`read`.

    ``binary`` says what becomes of bytes: ``"utf8"`` by default in formats of text, else they stay
    what they are. ``options`` are the format's, as ``{"header": "false"}`` for CSV, which has one
    otherwise. What is at ``path`` already is an error unless ``mode`` says otherwise.
    """
    check_arguments("export", arguments)
    rule = check_export(format, mode, binary)
    frame, pin = read_pinned(spark, table, **arguments)
    try:
        text = as_text(frame, format, rule)
        given = {**OPTIONS.get(format, {}), **(options or {})}
        lines = write_frame(text, path, format, mode, given, table_name(table))
    finally:
        KEEPER.release(pin)
    return Exported(path, format, lines)


def check_export(format: str, mode: str, binary: str | None) -> BinaryRule:  # noqa: A002
    """The rule for bytes, when everything makes sense together."""
    if mode not in MODES:
        raise InvalidArgument(f"mode is one of {', '.join(MODES)}; not {mode!r:.80}")
    if binary is None:
        return "utf8" if format in TEXT_FORMATS else "native"
    for rule in BINARY_RULES:
        if rule == binary and (rule != "native" or format not in TEXT_FORMATS):
            return rule
    allowed = BINARY_RULES[1:] if format in TEXT_FORMATS else BINARY_RULES
    raise InvalidArgument(
        f"binary is one of {', '.join(allowed)} for the format {format}; not {binary!r:.80}"
    )


def as_text(frame: Frame, format: str, rule: BinaryRule) -> Frame:  # noqa: A002
    """The same lines with bytes as text, as far as ``rule`` asks for it."""
    if format in FLAT_FORMATS:
        nested = [field.name for field in frame.schema if _is_nested(field.dataType)]
        if nested:
            raise InvalidArgument(
                f"column {nested[0]!r} is a map or a struct, which {format} does not have: "
                f"name columns, as in columns=['info:age'], or export shape='cells'"
            )
    if rule == "native":
        return frame
    return frame.select(
        [
            _text(_column(field.name), field.dataType, rule).alias(field.name)
            for field in frame.schema
        ]
    )


def _is_nested(kind: Any) -> bool:
    from pyspark.sql.types import MapType, StructType

    return isinstance(kind, MapType | StructType)


def _column(name: str) -> Any:
    from pyspark.sql import functions as sql

    return sql.col(f"`{name.replace('`', '``')}`")


def _text(value: Any, kind: Any, rule: BinaryRule) -> Any:
    """A value of a type with its bytes as text."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BinaryType, MapType, StructType

    if isinstance(kind, BinaryType):
        if rule == "utf8":
            return sql.validate_utf8(value.cast("string"))
        return sql.base64(value) if rule == "base64" else sql.lower(sql.hex(value))
    if isinstance(kind, MapType):
        named = sql.transform_keys(value, lambda key, _: _text(key, kind.keyType, rule))
        return sql.transform_values(named, lambda _, each: _text(each, kind.valueType, rule))
    if isinstance(kind, StructType):
        parts = [
            _text(value.getField(part.name), part.dataType, rule).alias(part.name) for part in kind
        ]
        return sql.struct(*parts)
    return value


def write_frame(
    frame: Frame,
    path: str,
    format: str,  # noqa: A002
    mode: Mode,
    options: Mapping[str, str],
    table: str,
) -> int:
    """Write, and count on the way; errors of Spark's as one sentence of ours."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    count = Observation()
    counted = frame.observe(count, sql.count(sql.lit(1)).alias("lines"))
    try:
        counted.write.format(format).mode(mode).options(**options).save(path)
    except Exception as error:  # PySpark's own, or py4j's where a task failed
        raise export_error(str(error), table, path) from error
    return int(count.get["lines"])


def export_error(reason: str, table: str, path: str) -> SteleError:
    """What a failed export is told as."""
    if "PATH_ALREADY_EXISTS" in reason:
        return AlreadyExists(
            f"there is something at {path} already: choose another path, or mode='overwrite'"
        )
    if "INVALID_UTF8_STRING" in reason:
        return InvalidArgument(
            f"table {table!r} has bytes that are no UTF-8 text: export with binary='base64' or "
            f"binary='hex', or to a format that has bytes, such as parquet"
        )
    if "DATA_SOURCE_NOT_FOUND" in reason:
        return InvalidArgument(
            f"Spark has no such format; it has parquet, orc, json, csv and what is installed: "
            f"{cause(reason)}"
        )
    return Unavailable(f"table {table!r} was not exported to {path}: {cause(reason)}")
