"""Which SQL makes columns of files fit a table; Spark itself is asked in tests/spark."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from stele.errors import InvalidArgument
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.spark.importing import Imported

SCHEMA = Schema(
    [Group("all", ["info", "anchor"])],
    columns={"info:age": "int64", "info:seen": "timestamp", "info:raw": "binary"},
)


def fields(**types: object) -> StructType:
    return StructType([StructField(name.replace("__", ":"), kind) for name, kind in types.items()])


def test_text_becomes_what_the_schema_says() -> None:
    text = StringType()
    made = Imported(SCHEMA, True, "hex").rows(
        fields(row=text, info__age=text, info__seen=text, info__raw=text, anchor__x=text)
    )
    assert made == [
        "unhex(`row`) AS `row`",
        "CAST(`info:age` AS bigint) AS `info:age`",
        "CAST(`info:seen` AS timestamp) AS `info:seen`",
        "unhex(`info:raw`) AS `info:raw`",
        "unhex(`anchor:x`) AS `anchor:x`",
    ]


def test_types_of_files_stay_and_maps_are_families() -> None:
    files = fields(
        row=BinaryType(), info__age=LongType(), anchor=MapType(BinaryType(), BinaryType())
    )
    made = Imported(SCHEMA, False, "native").rows(files)
    assert made == ["CAST(`row` AS BINARY) AS `row`", "`info:age`", "`anchor`"]
    (_, _, maps) = Imported(SCHEMA, True, "base64").rows(files)
    assert maps.startswith("transform_values(transform_keys(`anchor`, (k, v) -> unbase64(k))")


def test_a_map_of_text_is_no_family_with_types() -> None:
    files = fields(row=StringType(), info=MapType(StringType(), StringType()))
    with pytest.raises(InvalidArgument, match="names='qualified'"):
        Imported(SCHEMA, True, "utf8").rows(files)


def test_composite_keys_have_their_types() -> None:
    schema = Schema(key=[("tenant", "string"), ("day", "int64")])
    files = fields(tenant=StringType(), day=StringType(), f__v=StringType())
    assert Imported(schema, True, "utf8").rows(files)[1] == "CAST(`day` AS bigint) AS `day`"
    with pytest.raises(InvalidArgument, match="no column 'day' of the key"):
        Imported(schema, True, "utf8").rows(fields(tenant=StringType()))


def test_cells() -> None:
    text = StringType()
    files = fields(row=text, family=text, qualifier=text, value=text, timestamp=text, txn=text)
    assert Imported(SCHEMA, True, "base64").cells(files) == [
        "unbase64(`row`) AS `row`",
        "unbase64(`qualifier`) AS `qualifier`",
        "unbase64(`value`) AS `value`",
        "family",
        "CAST(timestamp AS BIGINT) AS timestamp",
    ]


def test_columns_that_cells_do_not_have_are_left_for_the_load_to_refuse() -> None:
    text = StringType()
    names = dict.fromkeys(("row", "family", "qualifier", "value", "op", "_change_type"), text)
    made = Imported(SCHEMA, False, "native").cells(fields(**names, txn=LongType()))
    assert made[-2:] == ["`op`", "`_change_type`"]
    assert not any("txn" in one for one in made)
