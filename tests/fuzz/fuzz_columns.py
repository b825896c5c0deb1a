"""Columns files: whole ones, and the decoders that stand behind their checksums.

The first byte chooses what the rest is: a whole file, its index, or what the index says of native
columns. The pages themselves are pyarrow's to decode, and only ever with the right checksum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import crc32c
import msgspec

from stele.env.memory_fs import MemoryFileSystem
from stele.env.ports import FileSystem
from stele.errors import Corruption
from stele.kernels.block import Block
from stele.model.cells import Cell, Op, cells_to_batch
from stele.model.columns import Column, ColumnSelection
from stele.model.typed_columns import TypedColumn
from stele.model.types import value_type
from stele.storage.fragment_columns_format import NativePart, parquet_schema
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import FragmentInfo, IndexPointer
from stele.storage.fragment_index import decode_index
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader

_COLUMNS = [
    TypedColumn(16, Column("f", b"n"), value_type("int64")),
    TypedColumn(17, Column("f", b"t"), value_type("string")),
    TypedColumn(18, Column("g", b""), value_type("bool")),
]
_CELLS = [
    cell
    for at in range(40)
    for cell in (
        Cell(b"row%02d" % at, "f", b"n", 9, at.to_bytes(8, "big"), txn=3),
        Cell(b"row%02d" % at, "f", b"t", 9, b"text %d" % (at % 5), txn=3 + at // 39),
        Cell(b"row%02d" % at, "g", b"", 9, bytes([at % 2]), txn=3),
    )
]
_ODD = Cell(b"row99", "", b"", 9, b"", Op.ERASE_ROW, txn=4)
_FEW = ColumnSelection.parse(["f:n"])


def _write(compression: str) -> tuple[bytes, FragmentInfo]:
    fs = MemoryFileSystem()
    options = FragmentOptions(compression=compression, block_cells=4)
    block = Block.from_batch(cells_to_batch([*_CELLS, _ODD]))
    (info, *_) = write_typed_fragment(
        fs, "", NameSequence("s"), [block], table="t", columns=_COLUMNS, options=options
    )
    return fs.read_all(info.name), info


_DATA, _INFO = _write("none")
_INDEX = _DATA[_INFO.index.offset : _INFO.index.offset + _INFO.index.size]


class _OneFile:
    """A file system that has one file, and is the file too."""

    path = "file"

    def __init__(self, data: bytes):
        self._data = data

    def open_read(self, path: str) -> _OneFile:
        return self

    def pread(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def size(self) -> int:
        return len(self._data)

    def close(self) -> None:
        """There is nothing to close."""


def _read_file(data: bytes) -> None:
    with FragmentReader.open(cast("FileSystem", _OneFile(data)), "file") as reader:
        for group in range(len(reader.index)):
            reader.read_block(group).batch.validate(full=True)
            reader.read_columns(group, _FEW).batch.validate(full=True)
            reader.may_contain(b"row01", group)


def _decode_index(data: bytes) -> None:
    pointer = IndexPointer(_INFO.index.offset, len(data), crc32c.crc32c(data))
    index = decode_index(data, pointer, "file")
    for group in range(len(index)):
        assert index.block_bytes(group) >= 0
        assert group in index.groups_of_row(index.first_row(group))


def _decode_native(data: bytes) -> None:
    try:
        part = msgspec.json.decode(data, type=NativePart)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corruption(str(error)) from error
    if len({column.name for column in part.columns}) == len(part.columns):
        assert len(parquet_schema(part.columns)) == part.leaves


_TARGETS: list[Callable[[bytes], None]] = [_read_file, _decode_index, _decode_native]


def _native() -> bytes:
    with FragmentReader.open(cast("FileSystem", _OneFile(_DATA)), "file") as reader:
        return msgspec.json.encode(reader.index.metadata.native)


SEEDS = [
    b"\x00" + _DATA,
    b"\x00" + _write("zstd")[0],
    b"\x01" + _INDEX,
    b"\x02" + _native(),
]


def TestOneInput(data: bytes) -> None:
    """Whatever decodes is valid in itself; whatever does not is refused by an error of ours."""
    if data:
        _TARGETS[data[0] % len(_TARGETS)](data[1:])
