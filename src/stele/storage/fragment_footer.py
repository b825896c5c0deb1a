"""Parquet's footer of a file of cells, in Thrift's compact protocol.

    FileMetaData  version 2; schema; cells; row groups; our metadata and Arrow's schema; writer;
                  the order of each column, without which statistics mean nothing

All that differs from file to file are the row groups, which a kernel writes, and our metadata. The
rest is put together once for each codec.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stele.kernels.arena import Arena
from stele.kernels.block import Ints
from stele.kernels.parquet_headers import (
    GROUP_BLOOM_BYTES,
    GROUP_BLOOM_OFFSET,
    GROUP_BYTES_MAX,
    GROUP_CELLS,
    GROUP_HAS_STATISTICS,
    GROUP_OFFSET,
    GROUP_PAGES,
    GROUP_WORDS,
    put_row_groups,
)
from stele.model.cells import CELLS
from stele.storage.fragment_format import METADATA_KEY, PARQUET_MAGIC

CREATED_BY = "stele version 1.0.0 (build 1)"
"""Readers look here for writers with known mistakes. It has the form they can parse."""

STATISTICS_BYTES_MAX = 4_096
"""Longer rows are not repeated in the footer: it has to stay small."""

_CODECS = {"none": 0, "snappy": 1, "zstd": 6, "lz4": 7}
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
_PLAIN, _RLE, _DELTA_LENGTH, _RLE_DICTIONARY = 0, 3, 6, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_UTF8, _INT_8 = 0, 15
_VERSION = 2
_REQUIRED = 0

# Types of the compact protocol.
_FALSE = 2
_I32 = 5
_I64 = 6
_BINARY = 8
_LIST = 9
_STRUCT = 12
_STOP = b"\x00"
_LIST_LENGTH_SHORT_MAX = 14


@dataclass(frozen=True, slots=True)
class _Column:
    """What is the same of a column in every row group."""

    name: str
    type: int
    encoding: int
    converted: int | None = None
    logical: bytes = b""
    """LogicalType, a union: for readers that know more than the older converted type."""


_COLUMNS = (
    _Column("row", _BYTE_ARRAY, _DELTA_LENGTH),
    _Column("family", _BYTE_ARRAY, _RLE_DICTIONARY, _UTF8, b"\x1c\x00\x00"),
    _Column("qualifier", _BYTE_ARRAY, _DELTA_LENGTH),
    _Column("timestamp", _INT64, _PLAIN),
    _Column("txn", _INT64, _PLAIN),
    _Column("op", _INT32, _PLAIN, _INT_8, b"\xac\x13\x08\x11\x00\x00"),
    _Column("value", _BYTE_ARRAY, _DELTA_LENGTH),
)
assert [column.name for column in _COLUMNS] == CELLS.names

SORTING_COLUMNS = 2
"""Row and family, ascending; the rest of the order of cells Parquet cannot express."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What the footer says of one row group."""

    cells: int
    offset: int
    page_sizes: Ints
    first_row: bytes
    last_row: bytes


def encode_footer(
    groups: Sequence[GroupFacts], blooms: Sequence[tuple[int, int]], codec: str, metadata: bytes
) -> bytes:
    """The footer with its length and magic. ``blooms`` are offset and size of each filter."""
    head, tail = _schema(), _tail()
    cells = sum(group.cells for group in groups)
    pairs = _pair(METADATA_KEY.encode(), metadata) + _pair(*_arrow_schema())
    footer = b"".join(
        (
            _field(1, _I32) + _number(_VERSION) + head,
            _field(1, _I64) + _number(cells),
            _field(1, _LIST) + _list(len(groups), _STRUCT),
            _row_groups(groups, blooms, codec),
            _field(1, _LIST) + _list(2, _STRUCT) + pairs,
            tail,
        )
    )
    return footer + struct.pack("<I", len(footer)) + PARQUET_MAGIC


def _row_groups(
    groups: Sequence[GroupFacts], blooms: Sequence[tuple[int, int]], codec: str
) -> bytes:
    table = np.zeros((len(groups), GROUP_WORDS), np.int64)
    rows: list[bytes] = []
    for group, bloom, entry in zip(groups, blooms, table, strict=True):
        entry[GROUP_CELLS], entry[GROUP_OFFSET] = group.cells, group.offset
        entry[GROUP_BLOOM_OFFSET], entry[GROUP_BLOOM_BYTES] = bloom
        entry[GROUP_PAGES:] = group.page_sizes
        has_statistics = max(len(group.first_row), len(group.last_row)) <= STATISTICS_BYTES_MAX
        entry[GROUP_HAS_STATISTICS] = has_statistics
        rows += (group.first_row, group.last_row) if has_statistics else (b"", b"")
    templates, ends = _templates(codec)
    joined = np.frombuffer(b"".join(rows) or b"\x00", np.uint8)
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    target = Arena(len(groups) * (GROUP_BYTES_MAX + len(templates)) + len(joined))
    size = put_row_groups(
        table, templates, ends, offsets.ctypes.data, joined.ctypes.data, target.address
    )
    return bytes(target.view()[:size])


# Thrift's compact protocol, as much of it as templates need.


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append((value & 127) | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(value: int) -> bytes:
    return _varint(2 * value if value >= 0 else -2 * value - 1)


def _text(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _field(distance: int, kind: int) -> bytes:
    """The head of a field, so many numbers behind the one before."""
    return bytes([distance << 4 | kind])


def _list(length: int, kind: int) -> bytes:
    if length <= _LIST_LENGTH_SHORT_MAX:
        return bytes([length << 4 | kind])
    return bytes([0xF0 | kind]) + _varint(length)


def _pair(key: bytes, value: bytes) -> bytes:
    return _field(1, _BINARY) + _text(key) + _field(1, _BINARY) + _text(value) + _STOP


@lru_cache(1)
def _arrow_schema() -> tuple[bytes, bytes]:
    """So that Arrow's readers find their own types again: families as a dictionary."""
    return b"ARROW:schema", base64.b64encode(CELLS.serialize())


@lru_cache(1)
def _schema() -> bytes:
    """The field with the schema: a root, and the columns below it."""
    root = _field(3, _I32) + _number(_REQUIRED) + _field(1, _BINARY) + _text(b"schema")
    root += _field(1, _I32) + _number(len(_COLUMNS)) + _STOP
    elements = b"".join(map(_schema_element, _COLUMNS))
    return _field(1, _LIST) + _list(len(_COLUMNS) + 1, _STRUCT) + root + elements


def _schema_element(column: _Column) -> bytes:
    element = _field(1, _I32) + _number(column.type) + _field(2, _I32) + _number(_REQUIRED)
    element += _field(1, _BINARY) + _text(column.name.encode())
    if column.converted is not None:
        element += _field(2, _I32) + _number(column.converted)
        element += _field(4, _STRUCT) + column.logical
    return element + _STOP


@lru_cache(1)
def _tail() -> bytes:
    """Who wrote it, and that every column has the order of its type."""
    by_type = _field(1, _STRUCT) + _STOP + _STOP
    orders = _list(len(_COLUMNS), _STRUCT) + by_type * len(_COLUMNS)
    return _field(1, _BINARY) + _text(CREATED_BY.encode()) + _field(1, _LIST) + orders + _STOP


@lru_cache(len(_CODECS))
def _templates(codec: str) -> tuple[bytes, Ints]:
    """The pieces that ``put_row_groups`` copies, and where each ends."""
    pieces: list[bytes] = []
    for column in _COLUMNS:
        pieces += (_chunk_head(column, _CODECS[codec]), _encoding_statistics(column))
    sorting = [
        _field(1, _I32) + _number(at) + _field(1, _FALSE) * 2 + _STOP
        for at in range(SORTING_COLUMNS)
    ]
    pieces.append(_field(1, _LIST) + _list(SORTING_COLUMNS, _STRUCT) + b"".join(sorting))
    return b"".join(pieces), np.cumsum([len(piece) for piece in pieces], dtype=np.int64)


def _chunk_head(column: _Column, codec: int) -> bytes:
    """ColumnChunk from its beginning to the codec in its metadata."""
    used = [column.encoding, _RLE]
    if column.encoding == _RLE_DICTIONARY:
        used.append(_PLAIN)
    head = _field(2, _I64) + _number(0) + _field(1, _STRUCT)
    head += _field(1, _I32) + _number(column.type)
    head += _field(1, _LIST) + _list(len(used), _I32) + b"".join(map(_number, used))
    head += _field(1, _LIST) + _list(1, _BINARY) + _text(column.name.encode())
    return head + _field(1, _I32) + _number(codec)


def _encoding_statistics(column: _Column) -> bytes:
    """How many pages of each kind and encoding there are, as a list without its field."""
    pages = [(_DATA_PAGE, column.encoding)]
    if column.encoding == _RLE_DICTIONARY:
        pages.insert(0, (_DICTIONARY_PAGE, _PLAIN))
    entries = [
        b"".join(_field(1, _I32) + _number(value) for value in (kind, encoding, 1)) + _STOP
        for kind, encoding in pages
    ]
    return _list(len(entries), _STRUCT) + b"".join(entries)
