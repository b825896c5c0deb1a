"""Row groups into blocks: our own decoder, and pyarrow's behind the same interface.

Both get bytes whose checksum has been verified. Ours walks the page headers, decompresses each page
into one arena and lets a kernel describe the result: about a quarter of the time pyarrow takes. A
file whose pages are not exactly ours says so in its metadata and is decoded by pyarrow; so is any
file in tests, where pyarrow is the judge.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from stele.errors import Corruption
from stele.kernels.block import DESCRIPTOR_WIDTH, Block, Families
from stele.kernels.parquet_pages import DECODE_REASONS, arena_bytes, decode_pages
from stele.kernels.parquet_thrift import (
    ALL_PAGES,
    BODY,
    COMPRESSED,
    FAMILIES_PAGE,
    KEY_PAGES,
    PLACE,
    TABLE_WIDTH,
    UNCOMPRESSED,
    VALUES,
    WALK_REASONS,
    walk_pages,
)
from stele.model.cells import CELLS
from stele.model.limits import FAMILIES_MAX
from stele.storage.file_pieces import FilePieces
from stele.storage.fragment_codecs import BadPage, decompressor
from stele.storage.fragment_index import FragmentIndex

_DICTIONARIES_KEPT = 64
"""Row groups of a file nearly always share one dictionary; this many are remembered."""


class GroupDecoder(Protocol):
    """Threads may share one."""

    def decode(self, data: bytes, group: int, *, values: bool) -> Block:
        """The cells of a row group from its bytes: all of them, or those in front of the values."""


class PageDecoder:
    """Our own decoder, for files whose pages are exactly ours."""

    def __init__(self, index: FragmentIndex, file: str):
        self._file = file
        self._families: Families = index.metadata.summary.families
        self._code_of = {name: code for code, name in enumerate(self._families)}
        self._decompress = decompressor(index.metadata.compression, file)
        self._cells = index.cells
        self._offsets: list[int] = index.groups["offset"].tolist()
        self._raw_bytes: list[int] = index.groups["raw_bytes"].tolist()
        self._dictionaries: dict[bytes, _CodeTable] = {}

    def decode(self, data: bytes, group: int, *, values: bool) -> Block:
        cells = self._cells[group]
        pages = ALL_PAGES if values else KEY_PAGES
        table = np.empty((pages, TABLE_WIDTH), np.int64)
        table_address = table.ctypes.data
        address, size = pa.py_buffer(data).address, len(data)
        page_bytes = walk_pages(address, size, size, cells, pages, table_address)
        if page_bytes < 0:
            raise self._damaged(group, WALK_REASONS[page_bytes])
        if page_bytes > self._raw_bytes[group]:
            raise self._damaged(group, "its pages are larger than the index says")
        arena = pa.allocate_buffer(arena_bytes(page_bytes, cells))
        entries = table.tolist()
        self._fill(arena, data, entries, group)
        codes = self._code_table(arena, entries[FAMILIES_PAGE], group)
        descriptor = np.zeros(DESCRIPTOR_WIDTH, np.int64)
        status = decode_pages(
            table_address,
            arena.address,
            page_bytes,
            cells,
            pages,
            codes.count,
            codes.address,
            descriptor,
        )
        if status < 0:
            raise self._damaged(group, DECODE_REASONS[status])
        return Block(descriptor, self._families, arena)

    def _fill(self, arena: pa.Buffer, data: bytes, entries: list[list[int]], group: int) -> None:
        source, target = memoryview(data), memoryview(arena).cast("B")
        for entry in entries:
            body, place = entry[BODY], entry[PLACE]
            try:
                self._decompress(
                    source[body : body + entry[COMPRESSED]],
                    target[place : place + entry[UNCOMPRESSED]],
                )
            except BadPage as error:
                raise self._damaged(group, f"a page cannot be decompressed: {error}") from error

    def _code_table(self, arena: pa.Buffer, entry: list[int], group: int) -> _CodeTable:
        """The family code of each entry of the row group's dictionary.

        A writer may leave names in it that no cell uses; those have no code.
        """
        place = entry[PLACE]
        page = bytes(memoryview(arena)[place : place + entry[UNCOMPRESSED]])
        known = self._dictionaries.get(page)
        if known is not None and known.count == entry[VALUES]:
            return known
        try:
            table = _CodeTable([self._code_of.get(name, -1) for name in parse_dictionary(page)])
        except ValueError as error:
            raise self._damaged(group, f"its dictionary of families is wrong: {error}") from error
        if table.count != entry[VALUES]:
            raise self._damaged(group, "its dictionary of families has another size than it says")
        if len(self._dictionaries) < _DICTIONARIES_KEPT:
            self._dictionaries[page] = table
        return table

    def _damaged(self, group: int, reason: str) -> Corruption:
        return Corruption(
            f"row group {group}: {reason}", file=self._file, offset=self._offsets[group]
        )


class _CodeTable:
    """A dictionary's codes where a kernel can reach them."""

    __slots__ = ("_codes", "address", "count")

    def __init__(self, codes: list[int]):
        self._codes: npt.NDArray[np.int16] = np.array(codes or [0], np.int16)
        self.count = len(codes)
        self.address = int(self._codes.ctypes.data)


def parse_dictionary(page: bytes) -> list[str]:
    """The names in a dictionary page: each with its length in front, as 32 bits."""
    names: list[str] = []
    at = 0
    while at < len(page):
        size = int.from_bytes(page[at : at + 4], "little")
        name = page[at + 4 : at + 4 + size]
        if len(name) != size or len(page) - at < 4:
            raise ValueError("a name is cut off")
        names.append(name.decode())
        at += 4 + size
    if len(names) > FAMILIES_MAX + 1:
        raise ValueError(f"{len(names)} families, the limit is {FAMILIES_MAX}")
    return names


class ArrowDecoder:
    """pyarrow's decoder, for files with other pages than ours."""

    def __init__(self, index: FragmentIndex, footer: bytes, file: str):
        self._file = file
        self._families: Families = index.metadata.summary.families
        self._offsets: list[int] = index.groups["offset"].tolist()
        self._cells = index.cells
        try:
            self._metadata = pq.read_metadata(pa.BufferReader(footer))
        except (pa.ArrowException, OSError) as error:
            raise Corruption(f"Parquet's footer cannot be read: {error}", file=file) from error
        if self._metadata.num_row_groups != len(index):
            raise Corruption("Parquet's footer has other row groups than the index", file=file)

    def decode(self, data: bytes, group: int, *, values: bool) -> Block:
        offset = self._offsets[group]
        columns = CELLS.names if values else CELLS.names[:-1]
        try:
            source = FilePieces([(offset, data)])
            parquet = pq.ParquetFile(source, metadata=self._metadata)
            cells = parquet.read_row_group(group, columns=columns, use_threads=False)
            if cells.num_rows != self._cells[group]:
                raise pa.ArrowInvalid("another number of cells than the index says")
            block = _to_block(cells)
            return block.with_families(self._families)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise Corruption(
                f"row group {group}: {error}", file=self._file, offset=offset
            ) from error


def _to_block(cells: Any) -> Block:
    """Whatever pyarrow made of the columns, as cells; missing values are empty."""
    if "value" not in cells.column_names:
        empty = pa.repeat(pa.scalar(b"", pa.binary()), cells.num_rows)
        cells = cells.append_column("value", empty)
    batch = cells.cast(CELLS).combine_chunks().to_batches()[0]
    return Block.from_batch(batch)
