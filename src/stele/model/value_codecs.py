"""How each type of value becomes bytes: one canonical encoding for each type, both ways.

The encodings are bijections between the values of a type and the byte strings they accept:
``decode(encode(x)) == x``, and ``encode(decode(b)) == b`` for every ``b`` that decodes at all.
A byte string that would not come back the same is *undecodable*; it is never read as something
near. That is what lets a fragment store typed columns natively and give back the very cells that
were written.

Each codec does single values in plain Python and whole Arrow arrays in numpy. Errors of single
values are ``ValueError`` or ``TypeError`` here; :mod:`stele.model.types` turns them into ours.
"""

from __future__ import annotations

import datetime
import operator
import struct
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stele.model.arrays import (
    Bools,
    Matrix,
    binary_from_matrix,
    matrix_from_binary,
    numbers,
    valid_mask,
)


class Codec(ABC):
    """One encoding: single values and arrays of exactly ``arrow`` type."""

    arrow: pa.DataType

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Bytes of one value; ``TypeError`` or ``ValueError`` if it is not one of this type."""

    @abstractmethod
    def decode(self, data: bytes) -> object:
        """The value that encodes to ``data``; ``ValueError`` if there is none."""

    @abstractmethod
    def encode_array(self, array: pa.Array) -> pa.Array:
        """Binary array of the same length, null where ``array`` is; ``ValueError`` as above."""

    @abstractmethod
    def decode_array(self, array: pa.Array) -> tuple[pa.Array, Bools]:
        """Typed array, null where undecodable; and which elements are undecodable."""


class FixedCodec(Codec):
    """Types of a fixed number of bytes, most significant byte first."""

    width: int

    @abstractmethod
    def to_matrix(self, array: pa.Array) -> Matrix:
        """One row of bytes for each element, anything for nulls."""

    @abstractmethod
    def from_matrix(self, matrix: Matrix) -> tuple[pa.Array, Bools]:
        """Values without nulls; and which rows are the encoding of one."""

    def encode_array(self, array: pa.Array) -> pa.Array:
        return binary_from_matrix(self.to_matrix(array), valid_mask(array))

    def decode_array(self, array: pa.Array) -> tuple[pa.Array, Bools]:
        matrix, fits = matrix_from_binary(array, self.width)
        values, canonical = self.from_matrix(matrix)
        good = fits & canonical
        if not good.all():
            values = pc.if_else(pa.array(good), values, None)
        return values, valid_mask(array) & ~good


class NumberCodec(FixedCodec):
    """Integers in two's complement and floats as IEEE 754 bits, which are kept: -0.0, NaN payloads.

    ``storage`` is the Arrow type whose buffer holds the numbers; dates and times are integers in
    disguise.
    """

    def __init__(self, storage: pa.DataType, arrow: pa.DataType | None = None) -> None:
        self.storage = storage
        self.arrow = arrow or storage
        self.native = np.dtype(storage.to_pandas_dtype())
        self.width = self.native.itemsize

    def to_matrix(self, array: pa.Array) -> Matrix:
        swapped = numbers(array, self.native).astype(self.native.newbyteorder(">"))
        return swapped.view(np.uint8).reshape(len(array), self.width)

    def from_matrix(self, matrix: Matrix) -> tuple[pa.Array, Bools]:
        big = np.ascontiguousarray(matrix).reshape(-1).view(self.native.newbyteorder(">"))
        native = big.astype(self.native)
        return pa.array(native, self.storage).view(self.arrow), self.accepts(native)

    def accepts(self, values: npt.NDArray[Any]) -> Bools:
        """Which numbers are values of the type."""
        return np.ones(len(values), np.bool_)


class IntegerCodec(NumberCodec):
    """Signed and unsigned integers."""

    def __init__(self, storage: pa.DataType, arrow: pa.DataType | None = None) -> None:
        super().__init__(storage, arrow)
        limits = np.iinfo(self.native)
        self.signed = bool(limits.min < 0)
        self.value_min, self.value_max = int(limits.min), int(limits.max)

    def encode(self, value: Any) -> bytes:
        if isinstance(value, bool):
            raise TypeError("a truth value is not a number")
        return self.encode_number(operator.index(value))

    def encode_number(self, number: int) -> bytes:
        """Bytes of a plain integer."""
        if not self.value_min <= number <= self.value_max:
            raise ValueError(f"not within {self.value_min} and {self.value_max}")
        return number.to_bytes(self.width, "big", signed=self.signed)

    def decode(self, data: bytes) -> object:
        return self.decode_number(data)

    def decode_number(self, data: bytes) -> int:
        """The plain integer in ``data``."""
        if len(data) != self.width:
            raise ValueError(f"{len(data)} bytes instead of {self.width}")
        number = int.from_bytes(data, "big", signed=self.signed)
        if not self.value_min <= number <= self.value_max:
            raise ValueError(f"not within {self.value_min} and {self.value_max}")
        return number

    def accepts(self, values: npt.NDArray[Any]) -> Bools:
        result: Bools = (values >= self.value_min) & (values <= self.value_max)
        return result

    def to_matrix(self, array: pa.Array) -> Matrix:
        bad = ~self.accepts(numbers(array, self.native)) & valid_mask(array)
        if bad.any():
            number = numbers(array, self.native)[int(np.flatnonzero(bad)[0])]
            raise ValueError(f"{number} is not within {self.value_min} and {self.value_max}")
        return super().to_matrix(array)


_FLOAT32_FROM_64_SHIFT = 29
"""Mantissa bits a double has beyond those of a float."""


class FloatCodec(NumberCodec):
    """IEEE 754 floats, by their bits.

    Python's floats are doubles, and converting a signalling NaN between widths changes it. So
    single NaNs of 32 bits are widened and narrowed by moving their bits.
    """

    def encode(self, value: Any) -> bytes:
        if isinstance(value, bool) or not isinstance(value, float | int | np.floating):
            raise TypeError("not a float")
        number = float(value)
        if self.width == 8:
            return struct.pack(">d", number)
        if number != number:  # NaN
            (wide,) = struct.unpack(">Q", struct.pack(">d", number))
            mantissa = (wide & ((1 << 52) - 1)) >> _FLOAT32_FROM_64_SHIFT
            sign = (wide >> 63) << 31
            # A payload below the float's resolution must not turn the NaN into an infinity.
            return struct.pack(">I", sign | 0x7F80_0000 | (mantissa or 0x40_0000))
        try:
            return struct.pack(">f", number)
        except OverflowError as error:
            raise ValueError("too large for 32 bits") from error

    def decode(self, data: bytes) -> object:
        if len(data) != self.width:
            raise ValueError(f"{len(data)} bytes instead of {self.width}")
        if self.width == 8:
            return struct.unpack(">d", data)[0]
        (bits,) = struct.unpack(">I", data)
        if bits & 0x7F80_0000 != 0x7F80_0000 or not bits & 0x7F_FFFF:
            return struct.unpack(">f", data)[0]
        wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7F_FFFF) << _FLOAT32_FROM_64_SHIFT
        return struct.unpack(">d", struct.pack(">Q", wide))[0]


class BoolCodec(FixedCodec):
    """One byte: 0 or 1, nothing else."""

    arrow = pa.bool_()
    width = 1

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bool | np.bool_):
            raise TypeError("not a truth value")
        return b"\x01" if value else b"\x00"

    def decode(self, data: bytes) -> object:
        if data not in (b"\x00", b"\x01"):
            raise ValueError("neither byte 0 nor byte 1")
        return data == b"\x01"

    def to_matrix(self, array: pa.Array) -> Matrix:
        filled = array.fill_null(False) if array.null_count else array
        truth: Bools = filled.to_numpy(zero_copy_only=False)
        return truth.astype(np.uint8).reshape(-1, 1)

    def from_matrix(self, matrix: Matrix) -> tuple[pa.Array, Bools]:
        column = matrix.reshape(-1)
        return pa.array(column == 1), column <= 1


EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is the type's, see TimestampCodec
MICROSECOND = datetime.timedelta(microseconds=1)
US_PER_DAY = 86_400_000_000


class DateCodec(IntegerCodec):
    """Days since 1970-01-01, 4 bytes, within the years 1 to 9999 that every tool can show."""

    def __init__(self) -> None:
        super().__init__(pa.int32(), pa.date32())
        self.value_min = (datetime.date.min - EPOCH.date()).days
        self.value_max = (datetime.date.max - EPOCH.date()).days

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
            raise TypeError("not a date")
        return self.encode_number((value - EPOCH.date()).days)

    def decode(self, data: bytes) -> object:
        return EPOCH.date() + datetime.timedelta(days=self.decode_number(data))


class TimestampCodec(IntegerCodec):
    """Microseconds since 1970-01-01 00:00, 8 bytes, within the years 1 to 9999.

    With a zone the values are instants (aware, in UTC); without, they are clock readings (naive).
    One is never taken for the other.
    """

    def __init__(self, *, utc: bool) -> None:
        super().__init__(pa.int64(), pa.timestamp("us", "UTC" if utc else None))
        self.zone = datetime.UTC if utc else None
        self.epoch = EPOCH.replace(tzinfo=self.zone)
        days = DateCodec()
        self.value_min = days.value_min * US_PER_DAY
        self.value_max = (days.value_max + 1) * US_PER_DAY - 1

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, datetime.datetime):
            raise TypeError("not a datetime")
        if (value.tzinfo is None) != (self.zone is None):
            wanted = "without" if self.zone is None else "with"
            raise ValueError(f"a datetime {wanted} a time zone is needed")
        return self.encode_number((value - self.epoch) // MICROSECOND)

    def decode(self, data: bytes) -> object:
        return self.epoch + datetime.timedelta(microseconds=self.decode_number(data))


class DecimalCodec(FixedCodec):
    """The unscaled integer in two's complement, 16 bytes, of at most ``precision`` digits."""

    width = 16

    def __init__(self, precision: int, scale: int) -> None:
        self.arrow = pa.decimal128(precision, scale)
        self.scale = scale
        self.unscaled_max = 10**precision - 1

    def encode(self, value: Any) -> bytes:
        if isinstance(value, bool) or not isinstance(value, Decimal | int):
            raise TypeError("not a decimal")
        sign, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int):
            raise ValueError("not finite")
        number = int("".join(map(str, digits)))
        shift = exponent + self.scale
        if number == 0 or len(digits) + shift > self.width * 3:
            # Zero has one encoding, whatever its exponent; and no huge power is ever computed.
            return self._pack(0 if number == 0 else self.unscaled_max + 1)
        if shift < 0:
            number, rest = divmod(number, 10**-shift) if -shift <= len(digits) else (0, number)
            if rest:
                raise ValueError(f"more than {self.scale} digits behind the point")
        else:
            number *= 10**shift
        return self._pack(-number if sign else number)

    def _pack(self, number: int) -> bytes:
        if abs(number) > self.unscaled_max:
            raise ValueError(f"more than {self.arrow.precision} digits")
        return number.to_bytes(self.width, "big", signed=True)

    def decode(self, data: bytes) -> object:
        if len(data) != self.width:
            raise ValueError(f"{len(data)} bytes instead of {self.width}")
        number = int.from_bytes(data, "big", signed=True)
        if abs(number) > self.unscaled_max:
            raise ValueError(f"more than {self.arrow.precision} digits")
        digits = tuple(map(int, str(abs(number))))
        return Decimal((number < 0, digits, -self.scale))

    def to_matrix(self, array: pa.Array) -> Matrix:
        flat = numbers(array.view(pa.binary(self.width)), f"V{self.width}")
        matrix = flat.view(np.uint8).reshape(len(array), self.width)[:, ::-1]
        bad = ~self._within(matrix) & valid_mask(array)
        if bad.any():
            raise ValueError(f"element {np.flatnonzero(bad)[0]} has more digits than its type")
        return matrix

    def from_matrix(self, matrix: Matrix) -> tuple[pa.Array, Bools]:
        good = self._within(matrix)
        little = np.ascontiguousarray(np.where(good[:, None], matrix, 0)[:, ::-1], np.uint8)
        buffers = [None, pa.py_buffer(little)]
        return pa.Array.from_buffers(self.arrow, len(matrix), buffers), good

    def _within(self, matrix: Matrix) -> Bools:
        halves = np.ascontiguousarray(matrix).reshape(-1).view(">u8").reshape(-1, 2)
        high, low = halves[:, 0].astype(np.uint64).view(np.int64), halves[:, 1].astype(np.uint64)
        top_high, top_low = divmod(self.unscaled_max, 1 << 64)
        bottom_high, bottom_low = divmod(-self.unscaled_max, 1 << 64)
        under = (high < top_high) | ((high == top_high) & (low <= np.uint64(top_low)))
        over = (high > bottom_high) | ((high == bottom_high) & (low >= np.uint64(bottom_low)))
        result: Bools = under & over
        return result


class BinaryCodec(Codec):
    """The bytes themselves."""

    arrow = pa.binary()

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError("not bytes")
        return bytes(value)

    def decode(self, data: bytes) -> object:
        return data

    def encode_array(self, array: pa.Array) -> pa.Array:
        return array

    def decode_array(self, array: pa.Array) -> tuple[pa.Array, Bools]:
        return array, np.zeros(len(array), np.bool_)


class StringCodec(Codec):
    """UTF-8, strictly: no surrogates, no overlong forms, so one encoding for each text."""

    arrow = pa.utf8()

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise TypeError("not text")
        return value.encode()

    def decode(self, data: bytes) -> object:
        return data.decode()

    def encode_array(self, array: pa.Array) -> pa.Array:
        array.validate(full=True)
        return array.view(pa.binary())

    def decode_array(self, array: pa.Array) -> tuple[pa.Array, Bools]:
        text = array.view(self.arrow)
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            bad = np.fromiter(map(_is_not_utf8, array.to_pylist()), np.bool_, len(array))
            return pc.if_else(pa.array(bad), None, array).view(self.arrow), bad
        return text, np.zeros(len(array), np.bool_)


def _is_not_utf8(data: bytes | None) -> bool:
    try:
        if data is not None:
            data.decode()
    except UnicodeDecodeError:
        return True
    return False
