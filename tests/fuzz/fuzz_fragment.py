"""Fragments and what META says of them: whole files, and each decoder behind its checksum.

The first byte chooses the decoder. Checksums stop nearly every mutation of a whole file at the
door, so the other decoders are given bytes as if their checksum were right: the pages of a row
group, the index, the trailer, and the stored forms of references and flush marks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import crc32c

from stele.env.memory_fs import MemoryFileSystem
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.model.cells import Cell, Op, cells_to_batch
from stele.model.ranges import RowRange
from stele.storage.fragment_decoder import PageDecoder
from stele.storage.fragment_format import FragmentInfo, IndexPointer
from stele.storage.fragment_index import TRAILER_BYTES, decode_index, decode_trailer
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_writer import write_fragment
from stele.storage.references import (
    FlushMark,
    Reference,
    coalesce_marks,
    decode_marks,
    decode_references,
    encode_marks,
    encode_references,
    split,
    unite,
)

_CELLS = [
    Cell(b"a", "", b"", 9, b"", Op.ERASE_ROW, txn=3),
    Cell(b"a", "f", b"", 9, b"", Op.ERASE_FAMILY, txn=3),
    *(Cell(b"a", "f", b"q%02d" % at, at, b"v" * at, txn=at) for at in range(20)),
    *(Cell(b"b%02d" % at, "g", b"", -at, b"", txn=at) for at in range(40)),
]


def _write(compression: str) -> tuple[bytes, FragmentInfo]:
    fs = MemoryFileSystem()
    options = FragmentOptions(compression=compression, block_cells=16)
    block = Block.from_batch(cells_to_batch(_CELLS))
    (info,) = write_fragment(fs, "", NameSequence("s"), [block], table="t", options=options)
    return fs.read_all(info.name), info


_FILES = {codec: _write(codec) for codec in ("none", "lz4", "snappy", "zstd")}
_DATA, _INFO = _FILES["none"]
_INDEX = _DATA[_INFO.index.offset : _INFO.index.offset + _INFO.index.size]
_TRAILER = _DATA[_INFO.index.offset + _INFO.index.size :][:TRAILER_BYTES]


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
            reader.read_block(group, values=False).batch.validate(full=True)
            reader.may_contain(b"a", group)


def _decoder(codec: str) -> tuple[PageDecoder, bytes]:
    data, info = _FILES[codec]
    reader = FragmentReader.open(cast("FileSystem", _OneFile(data)), "file", info)
    entry = reader.index.groups[1]
    start, size = int(entry["offset"]), int(entry["key_bytes"]) + int(entry["value_bytes"])
    return PageDecoder(reader.index, "file"), data[start : start + size]


_DECODERS = {codec: _decoder(codec) for codec in _FILES}


def _decode_pages(codec: str) -> Callable[[bytes], None]:
    def decode(data: bytes) -> None:
        decoder, _ = _DECODERS[codec]
        decoder.decode(data, 1, values=True).batch.validate(full=True)

    return decode


def _decode_index(data: bytes) -> None:
    pointer = IndexPointer(_INFO.index.offset, len(data), crc32c.crc32c(data))
    index = decode_index(data, pointer, "file")
    for group in range(len(index)):
        assert group in index.groups_of_row(index.first_row(group))
        assert index.block_bytes(group) > 0
    assert len(index.groups_of_range(RowRange())) == len(index)


def _decode_trailer(data: bytes) -> None:
    if len(data) == TRAILER_BYTES:
        decode_trailer(data, "file", 0)


def _decode_references(data: bytes) -> None:
    references = decode_references(data, "META")
    assert decode_references(encode_references(references), "META") == references
    lower, upper = split(unite(references), b"b")
    assert unite([*lower, *upper]) == unite([*upper, *lower])


def _decode_marks(data: bytes) -> None:
    marks = coalesce_marks(decode_marks(data, "META"))
    assert coalesce_marks(marks) == marks


_TARGETS: list[Callable[[bytes], None]] = [
    _read_file,
    _decode_pages("none"),
    _decode_pages("lz4"),
    _decode_pages("snappy"),
    _decode_pages("zstd"),
    _decode_index,
    _decode_trailer,
    _decode_references,
    _decode_marks,
]

_WHOLE = Reference(_INFO)
_MARKS = [FlushMark(_WHOLE.rows, _WHOLE.columns, 7)]

SEEDS = [
    b"\x00" + _DATA,
    b"\x00" + _FILES["zstd"][0],
    *(bytes([1 + at]) + body for at, (_, body) in enumerate(_DECODERS.values())),
    b"\x05" + _INDEX,
    b"\x06" + _TRAILER,
    b"\x07" + encode_references([_WHOLE]),
    b"\x07" + encode_references(split([_WHOLE], b"b")[0]),
    b"\x08" + encode_marks(_MARKS),
]


def TestOneInput(data: bytes) -> None:
    """Whatever decodes is valid in itself; whatever does not is refused by an error of ours."""
    if data:
        _TARGETS[data[0] % len(_TARGETS)](data[1:])
