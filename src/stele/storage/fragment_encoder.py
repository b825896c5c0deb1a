"""Row groups of cells into the bytes of their pages.

A kernel lays the pages of a row group out in memory that serves for all of them, each page is
compressed from there, and another kernel writes the headers. What comes out is what pyarrow would
write with the settings that ``docs/formats/fragment.md`` lists, in about half the time: nothing is
built up cell by cell, no memory is new, and one context compresses all pages of a file.

Plain integers come out of zstd smaller than any cleverer encoding and need no decoding; the
lengths of DELTA_LENGTH stand in front of the bytes, which is Arrow's own layout. Only the family
has a dictionary. Checksums of pages, statistics and bloom filters are for everybody.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stele.kernels.arena import KEPT, Arena
from stele.kernels.block import Block, Families, Ints, matrix, unify_families
from stele.kernels.bloom_build import build_bloom
from stele.kernels.fragment_survey import raw_bytes
from stele.kernels.parquet_encode import DATA_PAGES, DELTAS, encode_pages, pages_bytes_max
from stele.kernels.parquet_headers import (
    HEADER_BYTES_MAX,
    PAGE_CHECKSUM,
    PAGE_COMPRESSED,
    PAGE_UNCOMPRESSED,
    PAGE_WORDS,
    put_page_headers,
)
from stele.kernels.parquet_thrift import ALIGNMENT, ALL_PAGES, FAMILIES_PAGE, OVERRUN_BYTES
from stele.storage.fragment_codecs import compressor
from stele.storage.fragment_options import parse_compression


@dataclass(frozen=True, slots=True)
class EncodedGroup:
    """A row group as it goes into a file."""

    keys: bytes
    """All pages but the value's, with their headers."""
    value_header: bytes
    value: bytes
    raw_bytes: int
    """Memory that its pages are decompressed into, with padding."""
    page_sizes: Ints
    """Uncompressed and compressed size of each page, with its header."""
    bloom: bytes
    """The bloom filter over its rows, with its header."""


class GroupEncoder:
    """Encodes the row groups of one file. Not for two threads at once."""

    def __init__(self, compression: str):
        self._compress = compressor(*parse_compression(compression))
        self._arena: Arena | None = None
        self._families: Families = ()
        self._dictionary: tuple[int, bytes] = (0, b"")
        self._ends = np.zeros(DATA_PAGES, np.int64)
        self._deltas = np.zeros(DELTAS, np.int64)
        self._header_ends = np.zeros(ALL_PAGES, np.int64)
        self._headers = np.zeros(ALL_PAGES * HEADER_BYTES_MAX, np.uint8)

    def encode(self, blocks: Sequence[Block]) -> EncodedGroup:
        """The pages of the cells in some blocks, which are in order."""
        families, blocks = unify_families(blocks)
        parts = matrix(blocks)
        cells = sum(block.count for block in blocks)
        size = pages_bytes_max(cells, sum(raw_bytes(block.descriptor) for block in blocks))
        arena = self._room(size)
        encode_pages(parts, len(families), arena.address, self._ends, self._deltas)
        uncompressed, bodies = self._compressed(arena, families)
        headers, sizes = self._with_headers(uncompressed, bodies, cells, len(families))
        pieces = [piece for pair in zip(headers, bodies, strict=True) for piece in pair]
        return EncodedGroup(
            keys=b"".join(pieces[:-2]),
            value_header=headers[-1],
            value=bodies[-1],
            raw_bytes=sum(_padded(page) for page in uncompressed),
            page_sizes=sizes,
            bloom=build_bloom(parts),
        )

    def _room(self, size: int) -> Arena:
        """Memory for pages: the same again, unless huge values need more than is worth keeping."""
        if self._arena is not None and self._arena.size >= size:
            return self._arena
        arena = Arena(size)
        if size <= max(KEPT):
            self._arena = arena
        return arena

    def _compressed(self, arena: Arena, families: Families) -> tuple[list[int], list[bytes]]:
        """Sizes and compressed bodies of all pages, the dictionary of the families among them."""
        view, start = arena.view(), 0
        sizes: list[int] = []
        bodies: list[bytes] = []
        for end in self._ends.tolist():
            sizes.append(end - start)
            bodies.append(self._compress(view[start:end]))
            start = end
        if families != self._families:
            page = dictionary_page(families)
            self._families, self._dictionary = families, (len(page), self._compress(page))
        size, body = self._dictionary
        sizes.insert(FAMILIES_PAGE, size)
        bodies.insert(FAMILIES_PAGE, body)
        return sizes, bodies

    def _with_headers(
        self, uncompressed: list[int], bodies: list[bytes], cells: int, families: int
    ) -> tuple[list[bytes], Ints]:
        """The headers of all pages, and what each page comes to with its header."""
        table = np.empty((ALL_PAGES, PAGE_WORDS), np.int64)
        table[:, PAGE_UNCOMPRESSED] = uncompressed
        table[:, PAGE_COMPRESSED] = [len(body) for body in bodies]
        checksums = np.array([zlib.crc32(body) for body in bodies], np.uint32)
        table[:, PAGE_CHECKSUM] = checksums.view(np.int32)
        ends = self._header_ends
        put_page_headers(table, cells, families, self._headers.ctypes.data, ends)
        written = self._headers.tobytes()
        starts = [0, *ends.tolist()]
        headers = [written[starts[at] : starts[at + 1]] for at in range(ALL_PAGES)]
        table[:, : PAGE_COMPRESSED + 1] += np.diff(starts)[:, np.newaxis]
        return headers, table[:, : PAGE_COMPRESSED + 1].reshape(-1)


def dictionary_page(families: Families) -> memoryview:
    """The names of families as a plain page: each with its length in front, as 32 bits."""
    names = [name.encode() for name in families]
    return memoryview(b"".join(len(name).to_bytes(4, "little") + name for name in names))


def _padded(page: int) -> int:
    """What a page takes in the memory of a reader, which loads words beyond its end."""
    return -(-(page + OVERRUN_BYTES) // ALIGNMENT) * ALIGNMENT
