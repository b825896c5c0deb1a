"""Types that do not fit are told by column, both types and remedy, before anything begins."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from stele.errors import InvalidArgument
from stele.model.schema import Schema
from stele.spark.load_columns import load_columns
from stele.spark.load_fit import check_types

SCHEMA = Schema(
    columns={"info:age": "int64", "info:big": "uint64", "info:at": "timestamp"},
    key=[("tenant", "string"), ("day", "date")],
)


DATE, TEXT, INT, LONG = DateType(), StringType(), IntegerType(), LongType()


def check(**kinds: Any) -> None:
    fields = StructType([StructField(name, kind) for name, kind in kinds.items()])
    types = {field.name: field.dataType.simpleString() for field in fields}
    keys = [name for name in ("tenant", "day") if name in types]
    check_types(SCHEMA, load_columns(SCHEMA, types, row=keys, family="info"), fields)


def test_near_types_fit() -> None:
    check(tenant=TEXT, day=DATE, age=INT, big=DecimalType(20, 0), at=TimestampType())
    check(tenant=TEXT, day=DATE, age=NullType(), big=LONG)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("age", TEXT, "column 'age' is string, and the table declares int64 for info:age: cast it"),
        ("age", TEXT, "cast it to bigint, or read files of text with .* inferSchema=true"),
        ("age", DoubleType(), "column 'age' is double, and the table declares int64"),
        ("at", TimestampNTZType(), "column 'at' is timestamp_ntz"),
    ],
)
def test_others_are_refused_with_a_remedy(name: str, kind: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        check(tenant=TEXT, day=DATE, **{name: kind})


def test_keys_are_checked_too() -> None:
    with pytest.raises(InvalidArgument, match=r"'day' is string, .* date32.* for part day of the"):
        check(tenant=TEXT, day=TEXT, age=INT)
    with pytest.raises(InvalidArgument, match="has 2 parts: name as many columns in row, not 1"):
        check(tenant=TEXT, age=INT)
