"""Types, strategies for their values, and how two values are compared: by bits."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal

from hypothesis import strategies as st

from stele.model.types import ValueType, value_type
from tests.unit.model.strategies import nasty_bytes, nasty_text

SIGNED = {
    f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)
}
UNSIGNED = {f"uint{bits}": st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64)}
DECIMALS = ((1, 0), (5, 2), (38, 0), (38, 38), (20, 7))

dates = st.dates() | st.sampled_from([datetime.date.min, datetime.date.max])
naive = st.datetimes()
aware = st.datetimes(timezones=st.just(datetime.UTC))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    unscaled_max = 10**precision - 1
    edges = [0, 1, -1, unscaled_max, -unscaled_max]
    unscaled = st.integers(-unscaled_max, unscaled_max) | st.sampled_from(edges)
    return unscaled.map(
        lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    )


def float_of(bits: int) -> float:
    value: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
    return value


floats64 = st.floats() | st.integers(0, 2**64 - 1).map(float_of)

VALUES: dict[str, st.SearchStrategy[object]] = {
    **SIGNED,
    **UNSIGNED,
    "float32": st.floats(width=32),
    "float64": floats64,
    "bool": st.booleans(),
    "string": nasty_text,
    "binary": nasty_bytes,
    "date32": dates,
    "timestamp[us]": naive,
    "timestamp[us, tz=UTC]": aware,
    **{f"decimal128({p}, {s})": decimals(p, s) for p, s in DECIMALS},
}
"""All types, and values of each."""

typed_values = st.sampled_from(sorted(VALUES)).flatmap(
    lambda name: st.tuples(st.just(value_type(name)), VALUES[name])
)

typed_lists = st.sampled_from(sorted(VALUES)).flatmap(
    lambda name: st.tuples(
        st.just(value_type(name)), st.lists(st.one_of(st.none(), VALUES[name]), max_size=12)
    )
)


def bits(value: object) -> object:
    """What makes two values the same: floats by their bits, the rest by type and equality."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, Decimal):
        return (str(value.as_tuple()), value)
    return (type(value), value)


def any_bytes(kind: ValueType) -> st.SearchStrategy[bytes]:
    """Bytes that may or may not be an encoding: of the right length more often than by chance."""
    width = getattr(kind.codec, "width", None)
    if width is None:
        return nasty_bytes | st.binary(max_size=8)
    exact = st.binary(min_size=width, max_size=width)
    edges = st.lists(
        st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFF]), min_size=width, max_size=width
    ).map(bytes)
    return exact | edges | nasty_bytes
