"""Declared columns, and reading cells written before they were widened."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stele.errors import InvalidCells, InvalidSchema, LimitExceeded
from stele.model.columns import Column
from stele.model.limits import LABEL_BYTES_MAX
from stele.model.typed_columns import COLUMN_ID_FIRST, COLUMN_ID_MAX, TypedColumn
from stele.model.types import ValueType, value_type

AGE = Column("info", b"age")


def typed(*names: str) -> TypedColumn:
    *former, current = map(value_type, names)
    return TypedColumn(COLUMN_ID_FIRST, AGE, current, former=tuple(former))


def test_defaults() -> None:
    column = typed("int64")
    assert column.label == "info:age"
    assert column.encode(1) == bytes(7) + b"\x01"
    assert column.decode(bytes(7) + b"\x01") == 1


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("int8", "int16", "int64"), [-1, -300, 2**40]),
        (("uint8", "int16", "int32"), [255, -300, 2**20]),
        (("float32", "float64"), [1.5, 0.1]),
        (
            ("decimal128(3, 1)", "decimal128(9, 1)"),
            [value_type("decimal128(3, 1)").decode(bytes(16))] * 2,
        ),
    ],
)
def test_cells_of_former_types_are_read(names: tuple[str, ...], values: list[object]) -> None:
    column = typed(*names)
    raw = [value_type(name).encode(value) for name, value in zip(names, values, strict=True)]
    assert [column.decode(one) for one in raw] == values
    decoded, undecodable = column.decode_array(pa.chunked_array([pa.array([*raw, None, b"???"])]))
    assert decoded.to_pylist() == [*values, None, None]
    assert decoded.type == column.type.arrow
    assert undecodable.tolist() == [False] * (len(raw) + 1) + [True]


def test_former_types_are_not_asked_without_need() -> None:
    column = typed("int8", "int64")
    decoded, undecodable = column.decode_array(pa.array([column.encode(1), None]))
    assert decoded.to_pylist() == [1, None]
    assert not undecodable.any()


def test_undecodable_cells_name_the_column() -> None:
    with pytest.raises(InvalidCells, match=r"info:age is of type int64; b'x' \(1 bytes\)"):
        typed("int32", "int64").decode(b"x")


@pytest.mark.parametrize("names", [("int64", "int32"), ("int64", "int64"), ("string", "int64")])
def test_former_types_must_widen(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSchema, match="does not widen"):
        typed(*names)


@pytest.mark.parametrize("number", [COLUMN_ID_FIRST - 1, 0, -1, COLUMN_ID_MAX + 1])
def test_ids_are_limited(number: int) -> None:
    with pytest.raises(InvalidSchema, match=f"id {number}"):
        TypedColumn(number, AGE, value_type("int8"))


def test_labels_are_limited() -> None:
    kind: ValueType = value_type("int8")
    longest = "x" * LABEL_BYTES_MAX
    assert TypedColumn(COLUMN_ID_MAX, AGE, kind, longest).label == longest
    with pytest.raises(LimitExceeded, match=str(LABEL_BYTES_MAX)):
        TypedColumn(COLUMN_ID_FIRST, AGE, kind, longest + "x")


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", "x"), ("column", "f:q"), ("type", "int64"), ("label", 5), ("former", ["int8"])],
)
def test_every_part_is_of_its_type(field: str, value: object) -> None:
    parts: dict[str, Any] = {"id": COLUMN_ID_FIRST, "column": AGE, "type": value_type("int8")}
    with pytest.raises(InvalidSchema, match=f"the {field} of a declared column is of type"):
        TypedColumn(**(parts | {field: value}))
