"""Types of declared columns, by the names Arrow gives them.

    int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 bool string binary
    date32  timestamp[us]  timestamp[us, tz=UTC]  decimal128(p, s)

A type is looked up with :func:`value_type`, which also takes an Arrow type and a few everyday
aliases. The bytes are those of :mod:`stele.model.value_codecs`.

A cell keeps the bytes it was written with for ever. So a declared type can only be *widened*
(:func:`widens`) to one that still tells the old bytes apart from its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidArgument, InvalidCells
from stele.model.arrays import Bools, flatten
from stele.model.value_codecs import (
    BinaryCodec,
    BoolCodec,
    Codec,
    DateCodec,
    DecimalCodec,
    FloatCodec,
    IntegerCodec,
    StringCodec,
    TimestampCodec,
)

DECIMAL_DIGITS_MAX = 38
"""What 16 bytes hold, and what Spark, Parquet and Arrow agree on."""

_SHOWN_BYTES = 32


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type and its canonical encoding. Two are equal when their names are."""

    name: str
    codec: Codec = field(compare=False, repr=False)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of decoded values."""
        return self.codec.arrow

    def encode(self, value: object) -> bytes:
        """The one encoding of ``value``; :class:`InvalidArgument` if it is not of this type."""
        try:
            return self.codec.encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(
                f"{_shorten(repr(value))} is not a value of type {self.name}: {error}"
            ) from error

    def decode(self, data: bytes) -> object:
        """The value whose encoding is ``data``; :class:`InvalidCells` if there is none."""
        try:
            return self.codec.decode(data)
        except ValueError as error:
            raise InvalidCells(
                f"{data[:_SHOWN_BYTES]!r} ({len(data)} bytes) is not the encoding of a value of "
                f"type {self.name}: {error}"
            ) from error

    def encode_array(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Encodings of a whole array, null where it is null.

        Arrays of a near type are cast first, never with loss: other integer widths, large and
        dictionary-encoded strings, other time units. Text is not parsed, numbers are not formatted.
        """
        plain = self._cast(flatten(array))
        try:
            return self.codec.encode_array(plain)
        except (ValueError, pa.ArrowInvalid) as error:
            raise InvalidArgument(f"array is not of type {self.name}: {error}") from error

    def check_array(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The same values as an array of exactly this type, cast as :meth:`encode_array` does."""
        plain = self._cast(flatten(array))
        self.encode_array(plain)
        return plain

    def decode_array(self, array: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Bools]:
        """Values of a binary array, and which of its elements are undecodable.

        Undecodable elements are null in the result, as are those that were null before.
        """
        return self.codec.decode_array(flatten(array))

    def _cast(self, array: pa.Array) -> pa.Array:
        if array.type == self.arrow:
            return array
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), self.arrow)
        if _kind(array.type) != _kind(self.arrow):
            raise InvalidArgument(f"an array of type {array.type} is not one of type {self.name}")
        try:
            cast = pc.cast(array, self.arrow, safe=True)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"array is not of type {self.name}: {error}") from error
        if pa.types.is_floating(self.arrow):
            _check_no_new_infinity(array, cast, self.name)
        return cast

    def __str__(self) -> str:
        return self.name


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _kind(arrow: pa.DataType) -> str:
    """Types of one kind may be cast into each other; the rest may not."""
    kinds = {
        "integer": pa.types.is_integer,
        "float": pa.types.is_floating,
        "bool": pa.types.is_boolean,
        "date": pa.types.is_date,
        "decimal": pa.types.is_decimal,
        "string": is_text,
        "binary": is_bytes,
    }
    for kind, test in kinds.items():
        if test(arrow):
            return kind
    if pa.types.is_timestamp(arrow):
        return "clock reading" if arrow.tz is None else "instant"
    return str(arrow)


def is_text(arrow: pa.DataType) -> bool:
    """Whether this is one of Arrow's types of text."""
    types = pa.types
    return bool(
        types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow)
    )


def is_bytes(arrow: pa.DataType) -> bool:
    """Whether this is one of Arrow's types of bytes."""
    types = pa.types
    variable = types.is_binary(arrow) or types.is_large_binary(arrow)
    return bool(variable or types.is_fixed_size_binary(arrow) or types.is_binary_view(arrow))


def _check_no_new_infinity(array: pa.Array, cast: pa.Array, name: str) -> None:
    """Narrowing rounds, as it does everywhere; but a finite number must stay finite."""
    lost = pc.and_(pc.is_inf(cast), pc.invert(pc.is_inf(array)))
    if pc.any(lost).as_py():
        raise InvalidArgument(f"{array.filter(lost)[0].as_py()} is too large for type {name}")


_INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}

_CODECS: dict[str, Codec] = {
    **{name: IntegerCodec(getattr(pa, name)()) for name in _INTEGERS},
    "float32": FloatCodec(pa.float32()),
    "float64": FloatCodec(pa.float64()),
    "bool": BoolCodec(),
    "string": StringCodec(),
    "binary": BinaryCodec(),
    "date32": DateCodec(),
    "timestamp[us]": TimestampCodec(utc=False),
    "timestamp[us, tz=UTC]": TimestampCodec(utc=True),
}

_TYPES = {name: ValueType(name, codec) for name, codec in _CODECS.items()}

_ALIASES = {
    "str": "string",
    "utf8": "string",
    "bytes": "binary",
    "boolean": "bool",
    "float": "float32",
    "double": "float64",
    "date": "date32",
    "timestamp": "timestamp[us, tz=UTC]",
}

_DECIMAL = re.compile(r"decimal(?:128)?\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)", re.ASCII)


def value_type(spec: str | pa.DataType | ValueType) -> ValueType:
    """The type that a name, an alias or an Arrow type stands for.

    >>> value_type("int64").name, value_type("date").name, value_type(pa.float64()).name
    ('int64', 'date32', 'float64')
    """
    if isinstance(spec, ValueType):
        return spec
    if isinstance(spec, pa.DataType):
        return _from_arrow(spec)
    if not isinstance(spec, str):
        raise InvalidArgument(f"a type is named by text, not {type(spec).__name__}: {spec!r}")
    name = spec.strip()
    known = _TYPES.get(_ALIASES.get(name, name))
    if known is not None:
        return known
    match = _DECIMAL.fullmatch(name)
    if match is not None:
        return _decimal(int(match[1]), int(match[2]))
    raise InvalidArgument(
        f"unknown type {_shorten(repr(spec))}; known are {', '.join(_TYPES)}, decimal128(p, s)"
    )


def _from_arrow(arrow: pa.DataType) -> ValueType:
    if pa.types.is_decimal128(arrow):
        return _decimal(arrow.precision, arrow.scale)
    for known in _TYPES.values():
        if known.arrow == arrow:
            return known
    raise InvalidArgument(f"values of Arrow type {arrow} have no encoding")


@lru_cache(maxsize=1_024)
def _decimal(precision: int, scale: int) -> ValueType:
    if not 1 <= precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        raise InvalidArgument(
            f"decimal128({precision}, {scale}): the precision is 1 to {DECIMAL_DIGITS_MAX} digits "
            "and the scale 0 to the precision"
        )
    return ValueType(f"decimal128({precision}, {scale})", DecimalCodec(precision, scale))


def widens(old: ValueType, new: ValueType) -> bool:
    """Whether a column of type ``old`` may be declared ``new`` from now on.

    Every value of ``old`` must be one of ``new``, and each byte string in use must keep its
    meaning: an encoding of ``old`` is either the same value's encoding in ``new`` (decimals of
    more digits, text as bytes), or of another length and so never taken for one of ``new``.
    """
    if old == new or (old.name, new.name) in {("float32", "float64"), ("string", "binary")}:
        return True
    if pa.types.is_decimal(old.arrow) and pa.types.is_decimal(new.arrow):
        same_scale = old.arrow.scale == new.arrow.scale
        return bool(same_scale and old.arrow.precision <= new.arrow.precision)
    if old.name not in _INTEGERS or new.name not in _INTEGERS:
        return False
    keeps_sign = old.name.startswith("u") or not new.name.startswith("u")
    return keeps_sign and _INTEGERS[old.name] < _INTEGERS[new.name]
