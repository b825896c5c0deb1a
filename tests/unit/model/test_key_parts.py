"""One part of a key: its layouts, byte by byte, and the ways it can be wrong."""

from __future__ import annotations

import datetime
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.model.key_parts import KeyPart
from tests.unit.model.strategies import nasty_bytes


@pytest.mark.parametrize(
    ("type_name", "value", "last", "inner"),
    [
        ("int8", -128, b"\x00", b"\x00"),
        ("int8", 0, b"\x80", b"\x80"),
        ("int64", -1, b"\x7f" + b"\xff" * 7, b"\x7f" + b"\xff" * 7),
        ("uint16", 258, b"\x01\x02", b"\x01\x02"),
        ("bool", True, b"\x01", b"\x01"),
        ("date", datetime.date(1970, 1, 1), b"\x80\x00\x00\x00", b"\x80\x00\x00\x00"),
        ("uuid", uuid.UUID(int=1), bytes(15) + b"\x01", bytes(15) + b"\x01"),
        ("string", "a\x00é", b"a\x00\xc3\xa9", b"a\x00\xff\xc3\xa9\x00\x01"),
        ("binary", b"", b"", b"\x00\x01"),
        ("binary", b"\x00\x01", b"\x00\x01", b"\x00\xff\x01\x00\x01"),
    ],
)
def test_layouts(type_name: str, value: object, last: bytes, inner: bytes) -> None:
    part = KeyPart("p", type_name)
    for is_last, encoded in ((True, last), (False, inner)):
        assert part.encode(value, last=is_last) == encoded
        assert part.decode(encoded, 0, last=is_last) == (value, len(encoded))


@given(nasty_bytes, nasty_bytes)
def test_an_inner_part_ends_where_its_mark_stands(value: bytes, rest: bytes) -> None:
    part = KeyPart("p", "binary")
    encoded = part.encode(value, last=False)
    assert part.decode(b"##" + encoded + rest, 2, last=False) == (value, 2 + len(encoded))


@given(st.lists(nasty_bytes, min_size=1))
def test_arrays_end_at_the_same_places(values: list[bytes]) -> None:
    part = KeyPart("p", "binary")
    encoded = part.encode_array(pa.array(values, pa.binary()), last=False)
    longer = pa.array([one + b"rest" for one in encoded.to_pylist()], pa.binary())
    decoded, ends = part.decode_array(longer, np.zeros(len(values), np.int64), last=False)
    assert decoded.to_pylist() == values
    assert ends.tolist() == [len(one) for one in encoded.to_pylist()]


@pytest.mark.parametrize("type_name", ["float32", "float64", "decimal128(5, 2)"])
def test_types_without_an_order_of_bytes_are_refused(type_name: str) -> None:
    with pytest.raises(InvalidArgument, match="'p' cannot be of type"):
        KeyPart("p", type_name)


@pytest.mark.parametrize("type_name", ["", "int", "varchar"])
def test_unknown_types_are_refused(type_name: str) -> None:
    with pytest.raises(InvalidArgument, match="unknown type"):
        KeyPart("p", type_name)


def test_a_part_has_a_name() -> None:
    with pytest.raises(InvalidArgument, match="at least one character"):
        KeyPart("", "string")


@pytest.mark.parametrize(
    ("type_name", "value"),
    [("uuid", b"x" * 16), ("uuid", "0" * 32), ("int8", 200), ("string", b"a"), ("date", 3)],
)
def test_values_of_another_type_are_refused(type_name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match="key part 'p'"):
        KeyPart("p", type_name).encode(value, last=True)


@pytest.mark.parametrize(
    ("type_name", "array"),
    [
        ("string", pa.array([None], pa.utf8())),
        ("string", pa.array([1])),
        ("int8", pa.array([300])),
        ("uuid", pa.array([b"short"])),
        ("uuid", pa.array([None], pa.binary(16))),
    ],
)
def test_arrays_of_another_type_are_refused(type_name: str, array: pa.Array) -> None:
    with pytest.raises(InvalidArgument, match="key part 'p'"):
        KeyPart("p", type_name).encode_array(array, last=True)


def test_widths_and_arrow_types() -> None:
    assert KeyPart("p", "uuid").width == 16
    assert KeyPart("p", "int32").width == 4
    assert KeyPart("p", "string").width is None
    assert KeyPart("p", "uuid").arrow == pa.binary(16)
    assert KeyPart("p", "date").arrow == pa.date32()
    assert KeyPart("p", "date") == KeyPart("p", "date32")
