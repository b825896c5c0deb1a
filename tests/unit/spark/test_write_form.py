"""What the lines of a DataFrame are to a write, decided by names and types alone."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import stele
from stele.errors import InvalidArgument
from stele.model.cells import Op
from stele.spark.erasures import ErasedPart
from stele.spark.write_form import (
    arrow_schema,
    delete_form,
    refused,
    write_form,
)

SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"]), stele.Group("rest", ["anchor"])],
    columns={"info:age": "int64"},
)
CELLS = {"row": "binary", "family": "string", "qualifier": "binary", "value": "binary"}


def test_wide_rows_are_what_a_load_takes() -> None:
    types = {"id": "string", "info:age": "bigint", "t": "timestamp", "what": "string"}
    form = write_form(SCHEMA, types, row="id", timestamp="t", op="what", nulls="delete")
    assert (form.kind, form.key, form.data) == ("rows", ("id",), (("info:age", "info:age"),))
    assert (form.timestamp, form.op, form.nulls) == ("t", "what", "delete")
    maps = write_form(SCHEMA, {"id": "string", "anchor": "map<binary,binary>"}, row="id")
    assert (maps.data, maps.maps) == ((), (("anchor", "anchor"),))


def test_lines_with_all_the_columns_of_cells_are_cells() -> None:
    assert write_form(SCHEMA, CELLS).kind == "cells"
    full = write_form(SCHEMA, CELLS | {"timestamp": "bigint", "txn": "bigint", "op": "string"})
    assert (full.timestamp, full.op) == ("timestamp", "op")
    wide = CELLS | {"row": "string", "value": "string"}
    assert write_form(SCHEMA, wide, shape="rows", row="row", family="info").kind == "rows"


@pytest.mark.parametrize(
    ("types", "arguments", "said"),
    [
        (CELLS, {"shape": "tall"}, "shape is one of rows, cells"),
        (CELLS, {"nulls": "drop"}, "nulls is 'skip' or 'delete'"),
        (CELLS, {"nulls": "delete"}, "nulls says something of wide rows"),
        (CELLS, {"family": "info"}, "family says something of wide rows"),
        (CELLS | {"age": "int"}, {}, "'age' is not one of them"),
        ({"row": "binary"}, {"shape": "cells"}, "'family' is missing"),
        ({"row": "binary", "age": "int"}, {}, "says no family"),
        ({"id": "binary", "info:age": "int"}, {}, "no column 'row'"),
    ],
)
def test_what_does_not_fit_is_refused(
    types: dict[str, str], arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        write_form(SCHEMA, types, **arguments)


def test_a_delete_erases_rows_or_parts_of_them() -> None:
    types = {"id": "string", "more": "int"}
    whole = delete_form(SCHEMA, types, row="id")
    assert whole.erased == (ErasedPart("", b"", int(Op.ERASE_ROW)),)
    some = delete_form(SCHEMA, types, row="id", columns=["info:age", "anchor:"])
    assert set(some.erased) == {
        ErasedPart("info", b"age", int(Op.ERASE_COLUMN)),
        ErasedPart("anchor", b"", int(Op.ERASE_FAMILY)),
    }
    with pytest.raises(InvalidArgument, match="no column 'row'; it has id, more"):
        delete_form(SCHEMA, types)
    with pytest.raises(InvalidArgument, match="names no columns"):
        delete_form(SCHEMA, types, row="id", columns=[])


def test_the_batches_of_a_schema() -> None:
    fields = StructType([StructField("a", LongType()), StructField("b", StringType())])
    assert arrow_schema(fields).names == ["a", "b"]
    twice = StructType([StructField("a", LongType()), StructField("a", StringType())])
    with pytest.raises(InvalidArgument, match="two columns of the DataFrame are called 'a'"):
        arrow_schema(twice)


def test_a_refusal_says_what_does_not_fit() -> None:
    assert "does not fit the table: no" in str(refused(InvalidArgument("no")))
