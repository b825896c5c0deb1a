"""Typed row keys as bytes whose order is the order of the keys.

A key is one value (``"string"``) or a tuple of named ones (``[("tenant", "string"), ("day",
"date")]``). Encoded keys compare as bytes exactly as the keys compare as tuples, so a range of
keys is a range of rows and a partial tuple is a prefix of rows.

Each part is encoded for order, which is not how values are encoded:

- integers, dates and timestamps: big-endian with the sign bit flipped, so negative ones sort first;
- uuid: its 16 bytes;
- string (as UTF-8) and binary: as they are when they come last. In any other place they end with
  ``00 01``, and each ``00`` within is written ``00 FF``. The end mark sorts below everything that
  could follow in a longer value, and no encoded value contains it.

Floats are no key parts: -0.0 equals 0.0 and NaN equals nothing, so byte order cannot follow theirs.

Encoding is a bijection: bytes that no key encodes to are refused, never read as a near key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidArgument
from stele.model.arrays import (
    Bools,
    flatten,
    offsets,
    valid_mask,
)
from stele.model.key_parts import KeyPart
from stele.model.limits import KEY_COMPONENTS_MAX, ROW_BYTES_MAX
from stele.model.ranges import RowRange, check_row

KeySpec = str | Sequence[tuple[str, str]]
"""How a codec is written down: a type, or names and types of the parts."""


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Encodes keys of one table; see the module's docstring.

    ``composite`` keys are tuples (or mappings by name), others are single values.
    """

    parts: tuple[KeyPart, ...]
    composite: bool

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not 1 <= len(names) <= KEY_COMPONENTS_MAX:
            raise InvalidArgument(
                f"a key has 1 to {KEY_COMPONENTS_MAX} parts, not {len(names)}: {names}"
            )
        for name in names:
            if names.count(name) > 1:
                raise InvalidArgument(f"two parts of a key are named {name!r}")

    @staticmethod
    def parse(spec: object) -> KeyCodec:
        """From a type (``"string"``), pairs of name and type, or a codec."""
        if isinstance(spec, KeyCodec):
            return spec
        if isinstance(spec, str):
            return KeyCodec((KeyPart("row", spec),), composite=False)
        if isinstance(spec, list | tuple):
            pairs = [pair for pair in spec if isinstance(pair, list | tuple) and len(pair) == 2]
            texts = all(isinstance(text, str) for pair in pairs for text in pair)
            if len(pairs) == len(spec) and texts:
                return KeyCodec(tuple(KeyPart(*pair) for pair in pairs), composite=True)
        raise InvalidArgument(f"a key is a type or a list of (name, type) pairs, not {spec!r:.200}")

    @property
    def spec(self) -> KeySpec:
        """What :meth:`parse` turns back into this codec."""
        if not self.composite:
            return self.parts[0].type_name
        return tuple((part.name, part.type_name) for part in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, in order."""
        return tuple(part.name for part in self.parts)

    def encode(self, key: object) -> bytes:
        """The row of a whole typed key."""
        values = self._values(key)
        if len(values) != len(self.parts):
            raise InvalidArgument(
                f"key {key!r:.200} has {len(values)} parts instead of {len(self.parts)}: "
                f"{', '.join(self.names)}"
            )
        return check_row(self._encode(values))

    def decode(self, row: bytes) -> Any:
        """The key whose row this is: a value, or a tuple for composite keys."""
        values = []
        position = 0
        try:
            for part in self.parts:
                value, position = part.decode(row, position, last=part is self.parts[-1])
                values.append(value)
            if position != len(row) or self._encode(values) != row:
                raise ValueError("it is not what its own values encode to")
        except ValueError as error:
            raise InvalidArgument(
                f"row {row[:64]!r} is not an encoded key ({self}): {error}"
            ) from error
        return tuple(values) if self.composite else values[0]

    def to_bytes(self, key: object) -> bytes:
        """The row of a key given either way: typed, or already encoded (``bytes``)."""
        if isinstance(key, bytes):
            self.decode(check_row(key))
            return key
        return self.encode(key)

    def from_bytes(self, row: bytes) -> Any:
        """Same as :meth:`decode`."""
        return self.decode(row)

    def bound(self, key: object) -> bytes:
        """Where a key, the first parts of one, or any raw bytes, lies among the rows.

        It is at or below every row that begins with these parts, and above all smaller ones.
        """
        return key if isinstance(key, bytes) else self._encode(self._values(key))

    def range(self, start: object = None, end: object = None) -> RowRange:
        """Rows of the keys ``start <= key < end``; bounds may be partial, raw or ``None``."""
        first = b"" if start is None else self.bound(start)
        return RowRange(first, None if end is None else self.bound(end))

    def prefix_range(self, key: object) -> RowRange:
        """Rows of all keys that begin with these parts; a whole key is exactly its row."""
        values = self._values(key)
        if len(values) == len(self.parts):
            return RowRange.row(self.encode(key))
        return RowRange.prefix(self._encode(values))

    def _values(self, key: object) -> Sequence[object]:
        if not self.composite:
            return (key,)
        if isinstance(key, Mapping):
            known = [name for name in self.names if name in key]
            if len(known) != len(key) or known != list(self.names[: len(known)]):
                raise InvalidArgument(
                    f"key {key!r:.200} does not name the first of {', '.join(self.names)}"
                )
            return [key[name] for name in known]
        if not isinstance(key, tuple | list) or len(key) > len(self.parts):
            raise InvalidArgument(
                f"a key is a tuple of {len(self.parts)} parts ({', '.join(self.names)}), not "
                f"{key!r:.200}"
            )
        return key

    def _encode(self, values: Sequence[object]) -> bytes:
        last = self.parts[-1]
        return b"".join(
            part.encode(value, last=part is last)
            for part, value in zip(self.parts, values, strict=False)
        )

    def encode_arrays(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
        """The rows of many keys, one array for each part."""
        if len(columns) != len(self.parts):
            raise InvalidArgument(f"{len(columns)} columns for a key of {len(self.parts)} parts")
        rows = self._join(columns)
        sizes = np.diff(offsets(rows))
        wrong = np.flatnonzero((sizes == 0) | (sizes > ROW_BYTES_MAX))
        if len(wrong):
            check_row(rows[int(wrong[0])].as_py())
        return rows

    def _join(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
        last = self.parts[-1]
        encoded = [
            part.encode_array(column, last=part is last)
            for part, column in zip(self.parts, columns, strict=True)
        ]
        return encoded[0] if len(encoded) == 1 else pc.binary_join_element_wise(*encoded, b"")

    def decode_arrays(self, rows: pa.Array | pa.ChunkedArray) -> tuple[list[pa.Array], Bools]:
        """The parts of many keys, null where a row is no encoded key; and which rows those are."""
        plain = flatten(rows)
        starts = np.zeros(len(plain), np.int64)
        columns = []
        for part in self.parts:
            values, starts = part.decode_array(plain, starts, last=part is self.parts[-1])
            columns.append(values)
        good = np.logical_and.reduce([valid_mask(column) for column in (plain, *columns)])
        chosen = pa.array(good)
        again = self._join([column.filter(chosen) for column in columns])
        good[good] = pc.equal(again, plain.filter(chosen)).to_numpy(zero_copy_only=False)
        bad: Bools = ~good
        if bad.any():
            columns = [pc.if_else(pa.array(bad), None, column) for column in columns]
        return columns, bad

    def __str__(self) -> str:
        if not self.composite:
            return self.parts[0].type_name
        return ", ".join(f"{part.name} {part.type_name}" for part in self.parts)


RAW_KEYS = KeyCodec.parse("binary")
"""Keys that are bytes already: what a table has that declares nothing."""
