"""Which rows are plain, and that they mean what their cells would mean."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stele.errors import InvalidArgument, InvalidCells
from stele.model.cells import TIMESTAMP_MAX
from stele.model.schema import Schema
from stele.spark.load_rows import NotPlain, PlainRows

SCHEMA = Schema(columns={"info:age": "int64", "info:name": "string"})


def rows(**columns: Any) -> pa.RecordBatch:
    made = {name.replace("__", ":"): pa.array(values) for name, values in columns.items()}
    return pa.record_batch(made)


def plain(schema: Schema = SCHEMA, **changes: Any) -> PlainRows:
    given: dict[str, Any] = {"nulls": "skip", "timestamp": 77, "keys_are_encoded": False} | changes
    return PlainRows(schema, schema.columns, **given)


def test_values_pass_and_text_nobody_declared_is_bytes() -> None:
    batch = rows(row=[b"a", b"b"], info__age=[1, None], info__name=["x", "y"], x__y=["1", None])
    (found,) = plain().check([batch])
    assert found.schema.names == ["row", "info:age", "info:name", "x:y"]
    assert found.column("x:y").to_pylist() == [b"1", None]
    assert found.column("info:name").type == pa.utf8()


def test_rows_without_a_time_get_one() -> None:
    times = pa.array([5, None, TIMESTAMP_MAX], pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = rows(row=[b"a", b"b", b"c"], _timestamp=times, info__age=[1, 2, 3])
    (found,) = plain().check([batch])
    assert found.column("_timestamp").to_pylist() == [5, 77, 77]


@pytest.mark.parametrize(
    ("batch", "changes"),
    [
        (rows(row=[b"a", b"a"], info__age=[1, None]), {}),
        (rows(row=[b"a"], _op=["delete"], info__age=[1]), {}),
        (rows(row=[b"a", b"b"], info__age=[1, None]), {"nulls": "delete"}),
        (rows(row=[b"a"], x__y=[b"1"]), {}),
        (rows(row=[b"a"], info__age=[1], x__y=[b"1"], x__z=[b"2"]), {}),
        (rows(row=[b"a"], info__age=pa.nulls(1, pa.int64())), {}),
    ],
)
def test_what_is_not_plain(batch: pa.RecordBatch, changes: dict[str, Any]) -> None:
    with pytest.raises(NotPlain):
        list(plain(**changes).check([batch]))


def test_puts_that_say_so_are_plain() -> None:
    (found,) = plain().check([rows(row=[b"a"], _op=["put"], info__age=[1])])
    assert found.schema.names == ["row", "info:age"]
    with pytest.raises(InvalidCells, match="'put' or 'delete'"):
        list(plain().check([rows(row=[b"a"], _op=["no"], info__age=[1])]))


def test_keys_that_are_none_are_refused_unless_we_made_them() -> None:
    typed = Schema(key="int64", columns={"info:age": "int64"})
    batch = rows(row=[b"short"], info__age=[1])
    with pytest.raises(InvalidArgument, match="short"):
        list(plain(typed).check([batch]))
    assert list(plain(typed, keys_are_encoded=True).check([batch]))


def test_text_that_is_none_is_refused() -> None:
    broken = pa.array([b"\xff"]).view(pa.utf8())
    batch = rows(row=[b"a"], info__age=[1], x__y=broken)
    with pytest.raises(InvalidCells, match="'x:y' has text that is no UTF-8"):
        list(plain().check([batch]))
