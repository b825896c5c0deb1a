"""What columns of a DataFrame are to a table."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import InvalidArgument
from stele.model.columns import Column
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.spark.load_columns import cell_columns, load_columns, quoted

SCHEMA = Schema([Group("hot", ["info"])], columns={"info:age": "int64"})
TYPES = {"id": "string", "info:age": "bigint", "name": "string", "t": "timestamp", "op": "string"}


def test_each_column_has_its_place() -> None:
    found = load_columns(SCHEMA, TYPES, row="id", family="info", timestamp="t", op="op")
    assert found.key == ("id",)
    assert found.key_is_bytes
    assert found.data == {"info:age": "info:age", "info:name": "name"}
    assert found.written == (Column("info", b"age"), Column("info", b"name"))
    assert found.selection("X") == [
        "X AS `row`",
        "`t` AS `_timestamp`",
        "`op` AS `_op`",
        "`info:age` AS `info:age`",
        "`name` AS `info:name`",
    ]
    assert quoted("a`b") == "`a``b`"


def test_keys_that_spark_cannot_encode() -> None:
    typed = Schema(key=[("tenant", "string"), ("day", "int64")])
    found = load_columns(typed, {"tenant": "string", "day": "bigint", "f:v": "string"})
    assert (found.key, found.key_is_bytes) == (("tenant", "day"), False)
    assert load_columns(typed, {"k": "binary", "f:v": "binary"}, row="k").key_is_bytes
    number = Schema(key="int64")
    assert not load_columns(number, {"id": "bigint", "f:v": "string"}, row="id").key_is_bytes


@pytest.mark.parametrize(
    ("types", "arguments", "wrong"),
    [
        ({"x": "string"}, {"row": "id"}, "no column 'id'; it has x"),
        ({"id": "string"}, {"row": "id"}, "nothing to load"),
        ({"id": "string", "v": "string"}, {"row": "id"}, "'v' says no family"),
        ({"id": "string", "g:v": "string"}, {"row": "id"}, "family 'g' is in no group"),
        (
            {"id": "string", "info:v": "string", "v": "string"},
            {"row": "id", "family": "info"},
            "are both column 'info:v'",
        ),
        (
            {"id": "string", "info:v": "int"},
            {"row": "id"},
            "'info:v' is int, and the table declares",
        ),
        (TYPES, {"row": "id", "timestamp": "name", "family": "info"}, "timestamps are"),
        (TYPES, {"row": "id", "op": "t", "family": "info"}, "an op is text"),
    ],
)
def test_what_fits_nowhere_is_refused(
    types: dict[str, str], arguments: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(InvalidArgument, match=wrong):
        load_columns(SCHEMA, types, **arguments)


def test_a_map_is_a_family() -> None:
    types = {"id": "string", "info": "map<string,binary>"}
    found = load_columns(SCHEMA, types, row="id")
    assert found.maps == {"info": "info"}
    assert found.selection("X")[1] == (
        "map_entries(CAST(`info` AS MAP<BINARY, BINARY>)) AS `_family/info`"
    )
    with pytest.raises(InvalidArgument, match="family 'x' is in no group"):
        load_columns(SCHEMA, {"id": "string", "x": "map<string,string>"}, row="id")


CELLS = {"row": "binary", "family": "string", "qualifier": "binary", "value": "string"}


def test_lines_that_are_cells() -> None:
    types = CELLS | {"timestamp": "bigint", "txn": "bigint", "op": "string"}
    found = cell_columns(SCHEMA, types)
    assert found.cells
    assert found.written is None
    assert found.selection("X") == [
        "X AS `row`",
        "`timestamp` AS `_timestamp`",
        "`op` AS `_op`",
        "CAST(family AS STRING) AS _family",
        "CAST(qualifier AS BINARY) AS _qualifier",
        "CAST(value AS BINARY) AS _value",
    ]


@pytest.mark.parametrize(
    ("schema", "changes", "wrong"),
    [
        (SCHEMA, {"value": "int"}, "a column 'value' of type binary or string"),
        (SCHEMA, {"timestamp": "string"}, "timestamps are"),
        (SCHEMA, {"op": "double"}, "column 'op' is double: an op of cells is string, tinyint"),
        (SCHEMA, {"ops": "string"}, "'ops' is not one of them"),
        (Schema(key="int64"), {"row": "string"}, "encoded keys: cast it to binary"),
    ],
)
def test_what_is_no_cell(schema: Schema, changes: dict[str, str], wrong: str) -> None:
    with pytest.raises(InvalidArgument, match=wrong):
        cell_columns(schema, CELLS | changes)
