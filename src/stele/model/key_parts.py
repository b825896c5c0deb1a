"""One component of a row key as bytes in the order of its values.

The layouts are those of :mod:`stele.model.key_codec`, which joins the parts. Whether a part is the
``last`` of its key matters for the types of variable length only: in any other place they need an
end that byte order can see.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidArgument
from stele.model.arrays import (
    Ints,
    binary_from_matrix,
    flatten,
    gather,
    matrix_from_binary,
    offsets,
)
from stele.model.types import ValueType, value_type

ESCAPED_ZERO = b"\x00\xff"
END_MARK = b"\x00\x01"
UUID_BYTES = 16
SIGN_BIT = 0x80

_SIGNED = {"int8", "int16", "int32", "int64", "date32", "timestamp[us]", "timestamp[us, tz=UTC]"}
_UNSIGNED = {"uint8", "uint16", "uint32", "uint64", "bool"}
_VARIABLE = {"string", "binary"}
_UUID = "uuid"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One component of a key: its name, its type, and how it is laid out."""

    name: str
    type_name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidArgument("a key part has a name of at least one character")
        if self.type_name == _UUID:
            return
        canonical = value_type(self.type_name).name
        if canonical not in _SIGNED | _UNSIGNED | _VARIABLE:
            raise InvalidArgument(
                f"key part {self.name!r} cannot be of type {canonical}: its values have no order "
                "that bytes can follow"
            )
        object.__setattr__(self, "type_name", canonical)

    @property
    def values(self) -> ValueType:
        """The codec of its values; a uuid's are its 16 bytes."""
        return value_type("binary" if self.type_name == _UUID else self.type_name)

    @property
    def width(self) -> int | None:
        """Encoded size in bytes, or ``None`` where it depends on the value."""
        if self.type_name == _UUID:
            return UUID_BYTES
        return getattr(self.values.codec, "width", None)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of its values."""
        return pa.binary(UUID_BYTES) if self.type_name == _UUID else self.values.arrow

    def encode(self, value: object, *, last: bool) -> bytes:
        """Order-preserving bytes of one value."""
        if self.type_name == _UUID:
            return _uuid_bytes(self.name, value)
        try:
            data = self.values.encode(value)
        except InvalidArgument as error:
            raise InvalidArgument(f"key part {self.name!r}: {error}") from error
        if self.type_name in _SIGNED:
            return bytes([data[0] ^ SIGN_BIT]) + data[1:]
        if self.width is None and not last:
            return data.replace(b"\x00", ESCAPED_ZERO) + END_MARK
        return data

    def decode(self, data: bytes, start: int, *, last: bool) -> tuple[object, int]:
        """The value at ``start`` and where it ends; ``ValueError`` if there is none."""
        if self.width is not None:
            end = start + self.width
            part = data[start:end]
            if len(part) != self.width:
                raise ValueError(f"it ends within part {self.name!r}")
        elif last:
            end = len(data)
            part = data[start:]
        else:
            mark = data.find(END_MARK, start)
            if mark < 0:
                raise ValueError(f"part {self.name!r} has no end")
            end = mark + len(END_MARK)
            part = data[start:mark].replace(ESCAPED_ZERO, b"\x00")
        if self.type_name == _UUID:
            return uuid.UUID(bytes=part), end
        if self.type_name in _SIGNED:
            part = bytes([part[0] ^ SIGN_BIT]) + part[1:]
        return self.values.codec.decode(part), end

    def encode_array(self, array: pa.Array | pa.ChunkedArray, *, last: bool) -> pa.Array:
        """Order-preserving bytes of a whole array; nulls are refused."""
        plain = flatten(array)
        if plain.null_count:
            raise InvalidArgument(f"key part {self.name!r} has {plain.null_count} nulls")
        if self.type_name == _UUID and plain.type != pa.binary(UUID_BYTES):
            raise InvalidArgument(f"key part {self.name!r} is of type {plain.type}, not uuid")
        try:
            data = self.values.encode_array(plain)
        except InvalidArgument as error:
            raise InvalidArgument(f"key part {self.name!r}: {error}") from error
        if self.type_name in _SIGNED:
            return _flip_sign(data, self.width)
        if self.width is None and not last:
            escaped = pc.replace_substring(data, pattern=b"\x00", replacement=ESCAPED_ZERO)
            return pc.binary_join_element_wise(escaped, END_MARK, b"")
        return data

    def decode_array(self, array: pa.Array, starts: Ints, *, last: bool) -> tuple[pa.Array, Ints]:
        """Values at ``starts`` of each element, and where they end.

        Elements that do not decode get null or any value: the caller compares what the values
        encode to with what they came from.
        """
        sizes = np.diff(offsets(array)).astype(np.int64)
        starts = np.minimum(starts, sizes)
        if self.width is not None:
            ends = np.minimum(starts + self.width, sizes)
            lengths = ends - starts
        elif last:
            ends, lengths = sizes, sizes - starts
        else:
            rest = gather(array, starts, sizes - starts)
            marks = pc.find_substring(rest, pattern=END_MARK).to_numpy().astype(np.int64)
            lengths = np.where(marks < 0, sizes - starts, marks)
            ends = np.minimum(starts + lengths + len(END_MARK), sizes)
        part = gather(array, starts, lengths)
        if self.width is None and not last:
            part = pc.replace_substring(part, pattern=ESCAPED_ZERO, replacement=b"\x00")
        if self.type_name in _SIGNED:
            part = _flip_sign(part, self.width)
        if self.type_name == _UUID:
            matrix, fits = matrix_from_binary(part, UUID_BYTES)
            values = binary_from_matrix(matrix, fits).cast(pa.binary(UUID_BYTES))
            return values, ends
        return self.values.decode_array(part)[0], ends


def _uuid_bytes(name: str, value: object) -> bytes:
    if not isinstance(value, uuid.UUID):
        raise InvalidArgument(f"key part {name!r} is a uuid, not {type(value).__name__}: {value!r}")
    return value.bytes


def _flip_sign(data: pa.Array, width: int | None) -> pa.Array:
    assert width is not None, "signed parts have a fixed width"
    matrix, fits = matrix_from_binary(data, width)
    flipped = matrix.copy()
    flipped[:, 0] ^= SIGN_BIT
    return binary_from_matrix(flipped, fits)
