"""Encodings are bijections, for single values and for arrays, and both are the same one."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells
from stele.model.types import ValueType, value_type
from tests.unit.model.strategies import sliced
from tests.unit.model.typed_values import VALUES, any_bytes, bits, typed_lists, typed_values


@given(typed_values)
def test_decoding_gives_back_the_value(pair: tuple[ValueType, object]) -> None:
    kind, value = pair
    assert bits(kind.decode(kind.encode(value))) == bits(value)


@given(st.sampled_from(sorted(VALUES)).map(value_type), st.data())
@settings(max_examples=300)
def test_encoding_gives_back_the_bytes_or_they_are_undecodable(
    kind: ValueType, data: st.DataObject
) -> None:
    raw = data.draw(any_bytes(kind))
    try:
        value = kind.decode(raw)
    except InvalidCells:
        return
    assert kind.encode(value) == raw


@given(typed_lists, st.data())
@settings(max_examples=200)
def test_arrays_encode_like_single_values(
    pair: tuple[ValueType, list[object]], data: st.DataObject
) -> None:
    kind, values = pair
    if kind.name == "float32" or kind.name == "float64":
        values = [None if value != value else value for value in values]  # NaNs: by bits, below
    array = data.draw(sliced(values, kind.arrow))
    encoded = kind.encode_array(array)
    assert encoded.type == pa.binary()
    encoded.validate(full=True)
    assert encoded.to_pylist() == [None if v is None else kind.encode(v) for v in values]
    decoded, undecodable = kind.decode_array(encoded)
    assert not undecodable.any()
    decoded.validate(full=True)
    assert decoded.equals(array)


@given(st.sampled_from(sorted(VALUES)).map(value_type), st.data())
@settings(max_examples=300)
def test_arrays_decode_like_single_values(kind: ValueType, data: st.DataObject) -> None:
    raw = data.draw(st.lists(st.none() | any_bytes(kind), max_size=10))
    array = data.draw(sliced(raw, pa.binary()))
    decoded, undecodable = kind.decode_array(array)
    decoded.validate(full=True)
    assert decoded.type == kind.arrow
    expected = []
    for one in raw:
        try:
            expected.append(None if one is None else kind.encode(kind.decode(one)))
        except InvalidCells:
            expected.append(None)
    assert kind.encode_array(decoded).to_pylist() == expected
    wrong = [one is not None and good is None for one, good in zip(raw, expected, strict=True)]
    assert undecodable.tolist() == wrong


@pytest.mark.parametrize(
    ("name", "value", "encoded"),
    [
        ("int64", 1, b"\x00" * 7 + b"\x01"),
        ("int64", -1, b"\xff" * 8),
        ("int16", -2, b"\xff\xfe"),
        ("uint32", 2**32 - 1, b"\xff" * 4),
        ("float64", 1.0, b"\x3f\xf0" + bytes(6)),
        ("float64", -0.0, b"\x80" + bytes(7)),
        ("float32", 1.0, b"\x3f\x80\x00\x00"),
        ("bool", True, b"\x01"),
        ("string", "é", b"\xc3\xa9"),
        ("date32", datetime.date(1970, 1, 2), b"\x00\x00\x00\x01"),
        ("date32", datetime.date(1969, 12, 31), b"\xff\xff\xff\xff"),
        ("timestamp[us]", datetime.datetime(1970, 1, 1, 0, 0, 1), (10**6).to_bytes(8, "big")),  # noqa: DTZ001
        ("decimal128(5, 2)", Decimal("1.23"), (123).to_bytes(16, "big")),
        ("decimal128(5, 2)", Decimal("1E1"), (1000).to_bytes(16, "big")),
        ("decimal128(5, 2)", Decimal("-0.00"), bytes(16)),
        ("decimal128(5, 2)", Decimal("1.2300"), (123).to_bytes(16, "big")),
        ("decimal128(5, 2)", 7, (700).to_bytes(16, "big")),
        ("decimal128(5, 2)", Decimal("0E+999999"), bytes(16)),
    ],
)
def test_the_bytes_are_what_the_format_says(name: str, value: object, encoded: bytes) -> None:
    assert value_type(name).encode(value) == encoded


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_every_nan_keeps_its_bits(name: str) -> None:
    kind = value_type(name)
    width = kind.arrow.bit_width // 8
    quiet, signalling = 1 << (22 if width == 4 else 51), 1
    exponent = 0x7F80_0000 if width == 4 else 0x7FF << 52
    payloads = [quiet, signalling, quiet | 5, (quiet << 1) - 1]
    raw = [
        (sign << (8 * width - 1) | exponent | payload).to_bytes(width, "big")
        for sign in (0, 1)
        for payload in payloads
    ]
    assert [kind.encode(kind.decode(one)) for one in raw] == raw
    decoded, undecodable = kind.decode_array(pa.array(raw))
    assert not undecodable.any()
    assert kind.encode_array(decoded).to_pylist() == raw


def test_a_double_nan_does_not_become_an_infinity() -> None:
    tiny = struct.unpack(">d", struct.pack(">Q", 0x7FF << 52 | 1))[0]
    encoded = value_type("float32").encode(tiny)
    assert encoded == b"\x7f\xc0\x00\x00"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int8", 128),
        ("int8", -129),
        ("int64", 2**63),
        ("uint8", -1),
        ("int64", True),
        ("int64", 1.0),
        ("int64", "1"),
        ("int64", b"\x00" * 8),
        ("int64", None),
        ("float32", 1e39),
        ("float64", "1"),
        ("float64", True),
        ("float64", 10**400),
        ("bool", 1),
        ("string", b"a"),
        ("string", "\ud800"),
        ("binary", "a"),
        ("date32", datetime.datetime(2020, 1, 1)),  # noqa: DTZ001
        ("date32", "2020-01-01"),
        ("timestamp[us]", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        ("timestamp[us, tz=UTC]", datetime.datetime(2020, 1, 1)),  # noqa: DTZ001
        ("timestamp[us]", datetime.date(2020, 1, 1)),
        ("decimal128(5, 2)", Decimal("1.234")),
        ("decimal128(5, 2)", Decimal("1000")),
        ("decimal128(5, 2)", Decimal("NaN")),
        ("decimal128(5, 2)", Decimal("Infinity")),
        ("decimal128(5, 2)", Decimal("1E+999999")),
        ("decimal128(5, 2)", Decimal("1E-999999")),
        ("decimal128(5, 2)", 1.5),
        ("decimal128(5, 2)", True),
    ],
)
def test_values_of_another_type_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match="not a value of type"):
        value_type(name).encode(value)


def test_clock_readings_and_instants_are_told_apart() -> None:
    reading = datetime.datetime(2020, 1, 1)  # noqa: DTZ001
    with pytest.raises(InvalidArgument, match="without a time zone is needed"):
        value_type("timestamp[us]").encode(reading.replace(tzinfo=datetime.UTC))
    with pytest.raises(InvalidArgument, match="with a time zone is needed"):
        value_type("timestamp[us, tz=UTC]").encode(reading)
    paris = datetime.timezone(datetime.timedelta(hours=1))
    encoded = value_type("timestamp").encode(reading.replace(tzinfo=paris))
    assert value_type("timestamp").decode(encoded) == reading.replace(tzinfo=paris)


def test_numpy_scalars_are_values() -> None:
    assert value_type("int64").encode(np.int32(-1)) == b"\xff" * 8
    assert value_type("float64").encode(np.float32(1.0)) == b"\x3f\xf0" + bytes(6)
    assert value_type("bool").encode(np.bool_(True)) == b"\x01"


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("int64", b""),
        ("int64", bytes(7)),
        ("int64", bytes(9)),
        ("bool", b"\x02"),
        ("bool", b""),
        ("string", b"\xff"),
        ("string", b"\xc0\x80"),
        ("string", b"\xed\xa0\x80"),
        ("date32", b"\x7f\xff\xff\xff"),
        ("date32", b"\x80\x00\x00\x00"),
        ("timestamp[us]", b"\x7f" + b"\xff" * 7),
        ("decimal128(5, 2)", (100_000).to_bytes(16, "big")),
        ("decimal128(38, 0)", b"\x7f" + b"\xff" * 15),
        ("decimal128(38, 0)", b"\x80" + bytes(15)),
        ("decimal128(5, 2)", b"\x01"),
    ],
)
def test_bytes_that_encode_nothing_are_undecodable(name: str, raw: bytes) -> None:
    kind = value_type(name)
    with pytest.raises(InvalidCells, match=f"not the encoding of a value of type {name[:6]}"):
        kind.decode(raw)
    decoded, undecodable = kind.decode_array(pa.array([raw, None]))
    assert decoded.to_pylist() == [None, None]
    assert undecodable.tolist() == [True, False]


def test_text_split_within_a_character_is_undecodable() -> None:
    # Together the two are valid UTF-8; one by one neither is.
    _, undecodable = value_type("string").decode_array(pa.array([b"\xc3", b"\xa9", b"ok"]))
    assert undecodable.tolist() == [True, True, False]


def test_values_outside_the_years_of_the_calendar_are_refused_in_arrays() -> None:
    days = pa.array([2**31 - 1], pa.int32()).view(pa.date32())
    with pytest.raises(InvalidArgument, match="date32"):
        value_type("date32").encode_array(days)
    moments = pa.array([2**62], pa.int64()).view(pa.timestamp("us"))
    with pytest.raises(InvalidArgument, match="timestamp"):
        value_type("timestamp[us]").encode_array(moments)
    huge = pa.Array.from_buffers(
        pa.decimal128(5, 2), 1, [None, pa.py_buffer((10**6).to_bytes(16, "little"))]
    )
    with pytest.raises(InvalidArgument, match="digits"):
        value_type("decimal128(5, 2)").encode_array(huge)


def test_text_arrays_that_are_not_text_are_refused() -> None:
    broken = pa.array([b"\xff"]).view(pa.utf8())
    with pytest.raises(InvalidArgument, match="string"):
        value_type("string").encode_array(broken)
