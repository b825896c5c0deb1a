"""The columns that Spark asks for, held against those that a table has now."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stele.errors import InvalidArgument
from stele.spark.spark_types import spark_schema


def check_fields(found: pa.Schema, wanted: Any) -> tuple[str, ...]:
    """The columns that Spark asks for, in its order; each must be one of the table's as it is now.

    Spark's catalog keeps its own copy of a schema, which may have fallen behind the table's.
    """
    present = {field.name: field.dataType for field in spark_schema(found)}
    for field in wanted:
        kind = present.get(field.name)
        if kind is None:
            raise InvalidArgument(
                f"the table has no column {field.name!r}; it has {', '.join(present)}. If it was "
                f"altered: DROP TABLE and CREATE TABLE it again in Spark, the data stays"
            )
        if _plain(kind) != _plain(field.dataType):
            raise InvalidArgument(
                f"column {field.name!r} is of type {kind.simpleString()}, not "
                f"{field.dataType.simpleString()}"
            )
    return tuple(field.name for field in wanted)


def _plain(kind: Any) -> str:
    """A type without what does not matter here: whether parts of it may be null."""
    return str(kind.simpleString())
