"""Ranges of typed values as ranges of their encodings.

Encodings are not in the order of their values where there is a sign: in two's complement negative
numbers come after the others, and negative floats come after them in falling order. So a range of
values is up to two ranges of bytes. They are found on *ordinals*: numbers in the order of the
values, from which the bytes follow by flipping bits.

The ranges hold the encodings of exactly the values asked for; byte strings that are no encoding
of the type at all may lie in them too.
"""

from __future__ import annotations

from stele.errors import InvalidArgument
from stele.model.ranges import RowRange, normalise
from stele.model.types import ValueType
from stele.model.value_codecs import BinaryCodec, FixedCodec, FloatCodec, IntegerCodec, StringCodec


def value_ranges(kind: ValueType, low: object = None, high: object = None) -> tuple[RowRange, ...]:
    """Byte ranges of all values ``v`` of type ``kind`` with ``low <= v < high``.

    A bound of ``None`` is open. Zero is one value whatever its sign; NaNs are in no range and are
    refused as bounds. The result is empty when no value lies between the bounds.
    """
    codec = kind.codec
    if isinstance(codec, StringCodec | BinaryCodec):
        start, end = b"" if low is None else kind.encode(low), None
        if high is not None:
            end = kind.encode(high)
        return () if end is not None and end <= start else (RowRange(start, end),)
    assert isinstance(codec, FixedCodec)
    signed = not (isinstance(codec, IntegerCodec) and not codec.signed) and kind.name != "bool"
    first, last = _bounds(kind, codec)
    start_ordinal = first if low is None else _ordinal(kind, low)
    end_ordinal = last + 1 if high is None else _ordinal(kind, high)
    if end_ordinal <= start_ordinal:
        return ()
    if not signed:
        return (_bytes_range(start_ordinal, end_ordinal, codec.width),)
    return _signed_ranges(codec, start_ordinal, end_ordinal)


def _bounds(kind: ValueType, codec: FixedCodec) -> tuple[int, int]:
    """Ordinals of the smallest and the largest value of the type."""
    if isinstance(codec, FloatCodec):
        return _ordinal(kind, float("-inf")), _ordinal(kind, float("inf"))
    top = (1 << 8 * codec.width) - 1
    return (0, 1) if kind.name == "bool" else (0, top)


def _ordinal(kind: ValueType, value: object) -> int:
    """A number in the order of the type's values; -0.0 and 0.0 are both the smaller of the two."""
    data = kind.encode(value)
    raw = int.from_bytes(data, "big")
    sign = 1 << (8 * len(data) - 1)
    if isinstance(kind.codec, FloatCodec):
        if value != value:
            raise InvalidArgument("NaN cannot bound a range of values")
        if not value:
            return sign - 1
        return raw ^ (2 * sign - 1) if raw & sign else raw ^ sign
    unsigned = isinstance(kind.codec, IntegerCodec) and not kind.codec.signed
    return raw if unsigned or kind.name == "bool" else raw ^ sign


def _signed_ranges(codec: FixedCodec, start: int, end: int) -> tuple[RowRange, ...]:
    """Byte ranges of the ordinals ``start <= o < end``; those below ``sign`` are negative."""
    sign = 1 << (8 * codec.width - 1)
    ranges = []
    if end > sign:
        ranges.append(_bytes_range(max(start, sign) - sign, end - sign, codec.width))
    if start < sign:
        stop = min(end, sign)
        if isinstance(codec, FloatCodec):
            flip = 2 * sign - 1
            ranges.append(_bytes_range(flip ^ (stop - 1), (flip ^ start) + 1, codec.width))
        else:
            ranges.append(_bytes_range(start + sign, stop + sign, codec.width))
    return normalise(ranges)


def _bytes_range(start: int, end: int, width: int) -> RowRange:
    """The encodings ``start <= raw < end``, each a number of ``width`` bytes."""
    last = (end - 1).to_bytes(width, "big")
    return RowRange(start.to_bytes(width, "big"), last + b"\x00")
