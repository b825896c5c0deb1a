"""Every type of a column or key has a type in Spark that holds all of its values."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from stele.spark.spark_types import spark_array, spark_arrow_type, spark_schema


@pytest.mark.parametrize(
    ("values", "arrow", "expected"),
    [
        ([255], pa.uint8(), [255]),
        ([65_535], pa.uint16(), [65_535]),
        ([2**32 - 1], pa.uint32(), [2**32 - 1]),
        ([2**64 - 1, None], pa.uint64(), [decimal.Decimal(2**64 - 1), None]),
        ([b"x" * 16], pa.binary(16), [b"x" * 16]),
        (["a", "b", "a"], pa.dictionary(pa.int16(), pa.string()), ["a", "b", "a"]),
    ],
)
def test_what_spark_has_not_is_stood_in_for(
    values: list[object], arrow: pa.DataType, expected: list[object]
) -> None:
    assert spark_array(pa.array(values, arrow)).to_pylist() == expected


def test_what_spark_has_stays_as_it_is() -> None:
    for arrow in (pa.int64(), pa.string(), pa.binary(), pa.bool_(), pa.date32(), pa.float32()):
        assert spark_arrow_type(arrow) == arrow
        array = pa.nulls(3, arrow)
        assert spark_array(array) is array


def test_the_schema_of_a_frame() -> None:
    schema = pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("clock", pa.timestamp("us")),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("links", pa.map_(pa.binary(), pa.binary())),
            pa.field("info", pa.struct([pa.field("age", pa.int64())])),
        ]
    )
    assert spark_schema(schema).simpleString() == (
        "struct<key:string,at:timestamp,clock:timestamp_ntz,price:decimal(10,2),"
        "links:map<binary,binary>,info:struct<age:bigint>>"
    )
    assert all(field.nullable for field in spark_schema(schema))
