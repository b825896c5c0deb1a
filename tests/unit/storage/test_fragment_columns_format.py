"""What a columns file says of its columns: names, ids, and what contradicts itself."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from stele.errors import InvalidArgument
from stele.model.columns import Column
from stele.model.typed_columns import TypedColumn
from stele.model.types import value_type
from stele.storage import fragment_columns_format
from stele.storage.fragment_columns_format import (
    NativeColumn,
    NativePart,
    can_be_native,
    count_leaves,
    native_candidates,
    parquet_schema,
)
from tests.unit.storage.columns_cases import SOME_COLUMNS, native, typed


def test_the_schema_of_a_file() -> None:
    columns = native(SOME_COLUMNS[:1], own_stamps=True) + native(SOME_COLUMNS[1:2])
    schema = parquet_schema(columns)
    assert schema.names == [
        *("row", "_timestamp", "_txn"),
        *("info:age", "info:age@timestamp", "info:age@txn", "info:name"),
    ]
    assert count_leaves(columns) == len(schema)
    ids = {field.name: (field.metadata or {}).get(b"PARQUET:field_id") for field in schema}
    assert (ids["row"], ids["info:age"], ids["info:name"]) == (b"1", b"16", b"17")
    assert ids["info:age@txn"] is None
    assert [field.name for field in schema if not field.nullable] == ["row", "_timestamp", "_txn"]
    assert schema.field("info:age").type == pa.int64()


@pytest.mark.parametrize(
    ("qualifier", "possible"),
    [(b"age", True), (b"", True), (b"\xff", False), (b"a\0", False), (b"@txn", False)],
)
def test_names_that_parquet_can_carry(qualifier: bytes, possible: bool) -> None:
    assert can_be_native(TypedColumn(16, Column("f", qualifier), value_type("bool"))) is possible


def test_candidates_are_in_the_order_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = [typed(0, "z:a", "bool"), typed(1, "a:z", "bool"), typed(2, "a:b@txn", "bool")]
    assert [str(column.column) for column in native_candidates(declared)] == ["a:z", "z:a"]
    monkeypatch.setattr(fragment_columns_format, "NATIVE_COLUMNS_MAX", 1)
    assert native_candidates(declared) == ()


def part(**changes: object) -> NativePart:
    fields: dict[str, object] = {
        "columns": tuple(native(SOME_COLUMNS)),
        "cells": 2,
        "rows": 1,
        "first_row": b"a",
        "last_row": b"b",
        "complete": True,
    }
    return NativePart(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": ()}, "not sorted and unique"),
        ({"columns": tuple(reversed(native(SOME_COLUMNS)))}, "not sorted and unique"),
        ({"columns": tuple(native([typed(0, "a:a", "bool"), typed(0, "a:b", "bool")]))}, "one id"),
        ({"last_row": b""}, "contradict"),
        ({"rows": 3}, "contradict"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, object], said: str) -> None:
    assert part().leaves == 7
    with pytest.raises(InvalidArgument, match=said):
        part(**changes)


@pytest.mark.parametrize(
    "changes", [{"id": 3}, {"type": "int65"}, {"family": "a:b"}, {"qualifier": b"x" * 70_000}]
)
def test_damaged_columns_are_refused(changes: dict[str, object]) -> None:
    document = msgspec.to_builtins(native(SOME_COLUMNS)[0]) | msgspec.to_builtins(changes)
    with pytest.raises((InvalidArgument, msgspec.ValidationError)):
        msgspec.convert(document, NativeColumn)
