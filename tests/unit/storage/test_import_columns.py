"""Columns that an import was made for, and what may become of them."""

from __future__ import annotations

import pytest

from stele.errors import Conflict, Corruption
from stele.model.columns import Column
from stele.model.schema import Schema
from stele.model.schema_changes import alter, rename_column
from stele.storage.import_columns import ImportColumns, decode_columns, encode_columns

BEGAN = Schema(columns={"c:a": "int32", "d:b": "string"})
A, B, RAW = Column("c", b"a"), Column("d", b"b"), Column("c", b"raw")


def altered(*steps: dict[str, str]) -> Schema:
    schema = BEGAN
    for columns in steps:
        schema = alter(schema, Schema(columns=columns))
    return schema


@pytest.mark.parametrize("written", [None, [A, B]])
def test_what_lets_bytes_mean_the_same_passes(written: list[Column] | None) -> None:
    made = ImportColumns.of(BEGAN, written)
    assert decode_columns(encode_columns(made)) == made
    for now in (
        BEGAN,
        altered({"c:a": "int64", "d:b": "string"}),
        altered({"c:a": "int32", "d:b": "string", "x:new": "int64"}),
        rename_column(BEGAN, A, "age"),
        BEGAN.replace(version=2, history="2h"),
    ):
        made.check(now, "t", {"c", "d"})
    without = altered({"c:a": "int32"})
    made.check(without, "t", {"c"})


@pytest.mark.parametrize(
    ("now", "written", "wrong"),
    [
        (altered({"d:b": "string"}), [A], "'c:a' was int32 and is not declared"),
        (
            altered({"d:b": "string"}, {"c:a": "string", "d:b": "string"}),
            [A, B],
            "'c:a' was int32 and is string",
        ),
        (
            altered({"d:b": "string"}, {"c:a": "int32", "d:b": "string"}),
            None,
            "'c:a' was int32 and is int32 anew",
        ),
        (
            altered({"c:a": "int32", "d:b": "string", "c:raw": "int64"}),
            [RAW],
            "'c:raw' was not declared and is int64",
        ),
        (
            altered({"c:a": "int32", "d:b": "string", "c:raw": "int64"}),
            None,
            "'c:raw' was not declared and is int64",
        ),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(
    now: Schema, written: list[Column] | None, wrong: str
) -> None:
    with pytest.raises(Conflict, match=f"table 't' was altered while the job ran: column {wrong}"):
        ImportColumns.of(BEGAN, written).check(now, "t", {"c"})


def test_columns_that_the_job_does_not_write_may_change() -> None:
    now = altered({"c:a": "int32"}, {"c:a": "int32", "c:raw": "int64"})
    ImportColumns.of(BEGAN, [A]).check(now, "t", {"c"})


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80"])
def test_bytes_that_are_none(data: bytes) -> None:
    with pytest.raises(Corruption, match="not the columns of an import"):
        decode_columns(data)
