"""Reads one fragment file: opens it from its index, gives its row groups as blocks.

``open`` reads the index and nothing else. With the ``FragmentInfo`` of a reference that is one
read, and a file that is not exactly the one meant is refused. Without it the file is taken at its
own word: trailer, Parquet footer and index must prove each other.

Every row group and bloom filter is verified against its checksum before a byte of it is used.
Blocks are not kept here, see ``block_cache``.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import partial
from typing import Self

import crc32c
import msgspec
import numpy as np

from stele.env import paths
from stele.env.ports import FileSystem, RandomFile
from stele.errors import Corruption, UnsupportedFormat
from stele.kernels.block import Block
from stele.kernels.bloom import BloomFilter
from stele.kernels.search import slice_rows
from stele.model.arrays import Ints, numbers
from stele.model.columns import ColumnSelection
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.file_pieces import Piece
from stele.storage.fragment_columns_reader import Chunk, ColumnsDecoder
from stele.storage.fragment_decoder import ArrowDecoder, GroupDecoder, PageDecoder
from stele.storage.fragment_format import (
    COLUMNS_LAYOUT,
    FOOTER_BYTES_MAX,
    INDEX_BYTES_MAX,
    PARQUET_MAGIC,
    FragmentInfo,
    FragmentMetadata,
    FragmentSummary,
    IndexPointer,
)
from stele.storage.fragment_index import TRAILER_BYTES, FragmentIndex, decode_index, decode_trailer

_FOOTER_END = struct.Struct("<I4s")
_TAIL_BYTES = 64 * 1024
"""Read first when a file is opened by name alone; holds the whole tail of a small file."""


class Decoding(Enum):
    """Who decodes the pages: ours where it can, or pyarrow in any case."""

    OWN = "own"
    PYARROW = "pyarrow"


class FragmentReader:
    """An open fragment file. Immutable but for what it has loaded; threads share it."""

    def __init__(self, file: RandomFile, index: FragmentIndex, decoder: GroupDecoder, size: int):
        self._file = file
        self._close = weakref.finalize(self, file.close)
        self._decoder = decoder
        self._blooms: dict[int, BloomFilter] = {}
        self.index = index
        self.name = paths.basename(file.path)
        self.size = size

    @staticmethod
    def open(
        fs: FileSystem,
        path: str,
        info: FragmentInfo | None = None,
        *,
        decoding: Decoding = Decoding.OWN,
    ) -> FragmentReader:
        """Open a file; ``info`` says which one it has to be."""
        file = fs.open_read(path)
        try:
            size = file.size()
            pointer = _find_index(file, size) if info is None else _expected_index(path, size, info)
            index = decode_index(_read(file, pointer.offset, pointer.size), pointer, path)
            if info is not None and not _is_meant(index.metadata, info):
                raise Corruption("it says other things of itself than its reference", file=path)
            decoder: GroupDecoder
            if index.metadata.layout == COLUMNS_LAYOUT:
                decoder = ColumnsDecoder(index, partial(_read_footer, file, size), path)
            elif decoding is Decoding.OWN and index.metadata.plain_pages:
                decoder = PageDecoder(index, path)
            else:
                decoder = ArrowDecoder(index, _read_footer(file, size), path)
        except BaseException:
            file.close()
            raise
        return FragmentReader(file, index, decoder, size)

    @property
    def summary(self) -> FragmentSummary:
        return self.index.metadata.summary

    def read_block(self, group: int, *, values: bool = True) -> Block:
        """Read, verify and decode a row group. Without ``values``, all values are empty."""
        entry = self.index.groups[group]
        offset, key_bytes = int(entry["offset"]), int(entry["key_bytes"])
        value_bytes = int(entry["value_bytes"])
        # A file whose pages are not ours keeps keys and values in one piece.
        whole = values or not value_bytes
        size = key_bytes + value_bytes if whole else key_bytes
        data = _read(self._file, offset, size)
        view = memoryview(data)
        self._verify(view[:key_bytes], int(entry["key_crc"]), offset, "row group", group)
        if whole:
            self._verify(view[key_bytes:], int(entry["value_crc"]), offset, "row group", group)
        return self._decoder.decode(data, group, values=values)

    def read_columns(self, group: int, columns: ColumnSelection) -> Block:
        """The cells of a row group in some columns, or more of them.

        Of a file of the columns layout, only what is needed is read and decoded.
        """
        if columns.is_everything or not isinstance(self._decoder, ColumnsDecoder):
            return self.read_block(group)
        chosen = self._decoder.choose(columns)
        return chosen.decode(self._read_chunks(chosen.chunks(group), group), group)

    def read_txns(self, group: int) -> Ints:
        """The txns of a row group's cells, in no order; of a file of the columns layout each row's
        once, however many cells have it. Nothing else of the group is read, as far as that goes."""
        if not isinstance(self._decoder, ColumnsDecoder):
            return numbers(self.read_block(group, values=False).batch.column("txn"), np.int64)
        txns = self._decoder.txns
        return txns.decode(self._read_chunks(txns.chunks(group), group), group)

    def _read_chunks(self, chunks: Iterable[tuple[int, Chunk]], group: int) -> list[Piece]:
        parts: list[Piece] = []
        for leaf, (offset, size, crc) in chunks:
            data = _read(self._file, offset, size)
            self._verify(data, crc, offset, f"column {leaf} of row group", group)
            parts.append((offset, data))
        return parts

    def blocks(self, rows: RowRange = EVERYTHING, *, values: bool = True) -> Iterator[Block]:
        """The cells of a row range, in order, at most a row group at a time. No block is empty."""
        for group in self.index.groups_of_range(rows):
            block = slice_rows(self.read_block(group, values=values), rows)
            if block.count:
                yield block

    def may_contain(self, row: bytes, group: int) -> bool:
        """Whether the bloom filter of a row group allows for a row in it. Never a false no."""
        return self.bloom(group).may_contain(row)

    def bloom(self, group: int) -> BloomFilter:
        """The bloom filter of a row group, read and verified when it is first asked for."""
        bloom = self._blooms.get(group)
        if bloom is None:
            entry = self.index.groups[group]
            offset, size = int(entry["bloom_offset"]), int(entry["bloom_bytes"])
            data = _read(self._file, offset, size)
            self._verify(data, int(entry["bloom_crc"]), offset, "bloom filter", group)
            bloom = self._blooms[group] = BloomFilter.parse(data)
        return bloom

    def _verify(
        self, data: bytes | memoryview, crc: int, offset: int, what: str, group: int
    ) -> None:
        if crc32c.crc32c(data) != crc:
            raise Corruption(
                f"the checksum of {what} {group} is wrong", file=self._file.path, offset=offset
            )

    def read_footer(self) -> bytes:
        """Parquet's own footer with its length and magic, verified."""
        return _read_footer(self._file, self.size)

    def close(self) -> None:
        """Close the file; happens by itself when nobody holds the reader. Blocks stay good."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def _is_meant(metadata: FragmentMetadata, info: FragmentInfo) -> bool:
    """Whether a file says of itself what a reference says of it."""
    companion = None if metadata.companion is msgspec.UNSET else metadata.companion
    told = (metadata.layout, metadata.summary, companion)
    return told == (info.layout, info.summary, info.companion)


def _read(file: RandomFile, offset: int, size: int) -> bytes:
    """Exactly that many bytes; a file that ends before them is damaged."""
    data = file.pread(offset, size)
    if len(data) != size:
        raise Corruption(
            f"the file ends after {len(data)} of {size} bytes", file=file.path, offset=offset
        )
    return data


def _expected_index(path: str, size: int, info: FragmentInfo) -> IndexPointer:
    if size != info.size:
        raise Corruption(f"the file has {size} bytes, its reference says {info.size}", file=path)
    if info.index.size > INDEX_BYTES_MAX or info.index.offset + info.index.size > size:
        raise Corruption("its reference names an index outside the file", file=path)
    return info.index


def _footer_start(file: RandomFile, size: int, end: bytes) -> int:
    """Where Parquet's footer begins, from the last eight bytes of the file."""
    footer_bytes, magic = _FOOTER_END.unpack(end)
    if magic != PARQUET_MAGIC:
        raise Corruption("the file does not end like a Parquet file", file=file.path, offset=size)
    start = size - _FOOTER_END.size - int(footer_bytes)
    if footer_bytes > FOOTER_BYTES_MAX or start < 0:
        raise Corruption(
            f"Parquet's footer cannot have {footer_bytes} bytes", file=file.path, offset=size
        )
    return start


def _find_index(file: RandomFile, size: int) -> IndexPointer:
    """Where the index is, by the file's own word; checks everything that is behind it."""
    if size < len(PARQUET_MAGIC) + _FOOTER_END.size:
        raise Corruption(f"the file has only {size} bytes", file=file.path, offset=size)
    tail_at = max(0, size - _TAIL_BYTES)
    tail = _read(file, tail_at, size - tail_at)
    footer_at = _footer_start(file, size, tail[-_FOOTER_END.size :])
    trailer_at = footer_at - TRAILER_BYTES
    if trailer_at < len(PARQUET_MAGIC):
        raise UnsupportedFormat(f"{file.path}: a Parquet file, but no fragment: no trailer")
    if trailer_at < tail_at:
        tail, tail_at = _read(file, trailer_at, size - trailer_at), trailer_at
    trailer = tail[trailer_at - tail_at : footer_at - tail_at]
    pointer, footer_bytes, footer_crc = decode_trailer(trailer, file.path, trailer_at)
    footer = memoryview(tail)[footer_at - tail_at :]
    if len(footer) != footer_bytes or crc32c.crc32c(footer) != footer_crc:
        raise Corruption(
            "the checksum of Parquet's footer is wrong", file=file.path, offset=footer_at
        )
    if pointer.offset + pointer.size != trailer_at or pointer.size > INDEX_BYTES_MAX:
        raise Corruption("the index does not end at the trailer", file=file.path, offset=trailer_at)
    if _read(file, 0, len(PARQUET_MAGIC)) != PARQUET_MAGIC:
        raise Corruption("the file does not begin like a Parquet file", file=file.path, offset=0)
    return pointer


def _read_footer(file: RandomFile, size: int) -> bytes:
    """Parquet's footer with its length and magic, verified, for those who need it."""
    _find_index(file, size)
    end = _read(file, size - _FOOTER_END.size, _FOOTER_END.size)
    start = _footer_start(file, size, end)
    return _read(file, start, size - start)
