"""Writes one fragment file, from its first row group to its trailer.

pyarrow encodes; the bytes it produces are caught in memory, a row group at a time, and written
through the file system port, so that a full or failing disk is seen where it can be named. In the
end pyarrow leaves bloom filters and Parquet's footer in memory; the index and the trailer go
between the two. Parquet allows that, and its readers find everything by offset.

A file becomes a fragment by its very last bytes. Whatever is cut off before them is not one, and
is refused when opened; the name of a file whose write failed is never used again.
"""

from __future__ import annotations

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from stele.env import paths
from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import InvalidCells, LimitExceeded
from stele.kernels.block import Block, unify_families
from stele.kernels.fragment_survey import raw_bytes
from stele.kernels.parquet_thrift import (
    ALL_PAGES,
    BODY,
    COMPRESSED,
    TABLE_WIDTH,
    VALUE_PAGE,
    walk_pages,
)
from stele.storage.fragment_cutter import RowGroup
from stele.storage.fragment_format import (
    FILE_GROUPS_LIMIT,
    INDEX_BYTES_MAX,
    PARQUET_MAGIC,
    FragmentInfo,
    FragmentMetadata,
    HistogramEntry,
    IndexPointer,
    encode_metadata,
    make_histogram,
)
from stele.storage.fragment_index import CONTINUES, GROUP, Groups, encode_index, encode_trailer
from stele.storage.fragment_options import FragmentOptions, parquet_arguments
from stele.storage.fragment_summary import SummaryBuilder
from stele.storage.fragment_tail import Catcher, add_blooms, close_parquet

AFTER_GROUP = declare("storage.fragment.after_group")
AFTER_FOOTER = declare("storage.fragment.after_footer")
AFTER_SYNC = declare("storage.fragment.after_sync")

FIRST_ROWS_BYTES_MAX = 8 * 1024 * 1024
"""First rows in an index at which the next row begins another file."""


class FragmentFileWriter:
    """One file being written. Not thread-safe; after an error only ``close`` may be called."""

    def __init__(
        self, fs: FileSystem, directory: str, name: str, table: str, options: FragmentOptions
    ):
        self.name = name
        self._table = table
        self._options = options
        self._catcher = Catcher()
        self._parquet = pq.ParquetWriter(self._catcher, **parquet_arguments(options))
        self._summary = SummaryBuilder()
        self._entries: list[tuple[int, ...]] = []
        self._first_rows: list[bytes] = []
        self._first_rows_bytes = 0
        self._plain_pages = True
        self._file = fs.create(paths.join(directory, name))

    @property
    def is_full(self) -> bool:
        """Whether the next row should begin another file."""
        return (
            len(self._entries) >= self._options.file_groups
            or self._file.position >= self._options.file_bytes
            or self._first_rows_bytes >= FIRST_ROWS_BYTES_MAX
        )

    @property
    def names(self) -> list[str]:
        """The names of all files it has made: one."""
        return [self.name]

    def takes(self, group: RowGroup) -> bool:
        """Whether a row group may follow in this file."""
        return group.continues or not self.is_full

    def write_group(self, group: RowGroup) -> None:
        """Encode and write one row group."""
        if len(self._entries) == FILE_GROUPS_LIMIT or self._first_rows_bytes > INDEX_BYTES_MAX // 2:
            raise LimitExceeded(
                f"row {group.parts[0].row(0)[:64]!r} spans more row groups than one file can have "
                f"({FILE_GROUPS_LIMIT})"
            )
        for part in group.parts:
            self._summary.add(part)
        first_row = group.parts[0].row(0)
        offset = self._catcher.tell() if self._entries else len(PARQUET_MAGIC)
        try:
            self._parquet.write_table(_to_table(group.parts), row_group_size=1 << 30)
        except pa.ArrowException as error:
            raise InvalidCells(f"cells near row {first_row[:64]!r} cannot be encoded") from error
        # The last part is the compressed values, by far the largest: it is not copied.
        *parts, values = self._catcher.take()
        head = b"".join(parts)
        magic = b"" if self._entries else PARQUET_MAGIC
        assert head.startswith(magic)
        self._entries.append(self._describe(group, head[len(magic) :], values, offset))
        self._first_rows.append(first_row)
        self._first_rows_bytes += len(first_row)
        self._file.write(head, values)
        failpoint(AFTER_GROUP)

    def _describe(
        self, group: RowGroup, head: bytes, values: bytes, offset: int
    ) -> tuple[int, ...]:
        """The index entry of a row group, but for its bloom filter."""
        cells = sum(part.count for part in group.parts)
        size = len(head) + len(values)
        table = np.zeros((ALL_PAGES, TABLE_WIDTH), np.int64)
        address = pa.py_buffer(head).address
        raw = walk_pages(address, len(head), size, cells, ALL_PAGES, table.ctypes.data)
        keys = _key_bytes(table)
        if raw < 0 or keys > len(head):
            # Another version of pyarrow may lay pages out differently: then the file says so, and
            # its readers leave the decoding to pyarrow too.
            self._plain_pages = False
            head, values = head + values, b""
            keys, raw = len(head), sum(raw_bytes(part.descriptor) for part in group.parts)
        view = memoryview(head)
        return (
            offset,
            0,
            keys,
            size - keys,
            raw,
            cells,
            crc32c.crc32c(view[:keys]),
            crc32c.crc32c(values, crc32c.crc32c(view[keys:])),
            0,
            0,
            CONTINUES if group.continues else 0,
            0,
        )

    def finish(self) -> FragmentInfo:
        """Write what follows the row groups and sync the file. Its directory is the caller's."""
        summary = self._summary.build()
        groups = np.array(self._entries, GROUP)
        metadata = encode_metadata(
            FragmentMetadata(
                table=self._table,
                compression=self._options.codec,
                plain_pages=self._plain_pages,
                summary=summary,
                histogram=self._histogram(groups),
            )
        )
        blooms, footer = close_parquet(self._parquet, self._catcher, metadata)
        groups_end = int(groups["offset"][-1]) + self._entries[-1][2] + self._entries[-1][3]
        add_blooms(groups, self._parquet, blooms, groups_end)
        index = encode_index(metadata, groups, self._first_rows)
        pointer = IndexPointer(groups_end + len(blooms), len(index), crc32c.crc32c(index))
        self._file.write(blooms, index, encode_trailer(pointer, footer), footer)
        failpoint(AFTER_FOOTER)
        self._file.sync()
        failpoint(AFTER_SYNC)
        size = self._file.position
        self._file.close()
        return FragmentInfo(name=self.name, size=size, index=pointer, summary=summary)

    def _histogram(self, groups: Groups) -> tuple[HistogramEntry, ...]:
        cells_before = np.cumsum(groups["cells"], dtype=np.int64) - groups["cells"]
        begins = [at for at, entry in enumerate(self._entries) if not entry[-2] & CONTINUES]
        return make_histogram(
            [self._first_rows[at] for at in begins],
            cells_before[begins].tolist(),
            groups["offset"][begins].tolist(),
        )

    def close(self) -> None:
        """Close without finishing. Idempotent."""
        self._file.close()


def _to_table(parts: tuple[Block, ...]) -> pa.Table:
    """The cells of all parts as one piece: chunks with different families would lose them."""
    if len(parts) == 1:
        return pa.Table.from_batches([parts[0].batch])
    _, unified = unify_families(parts)
    return pa.Table.from_batches([block.batch for block in unified]).combine_chunks()


def _key_bytes(table: npt.NDArray[np.int64]) -> int:
    """Where the value column begins: its header stands right behind the last key page."""
    before = table[VALUE_PAGE - 1]
    return int(before[BODY] + before[COMPRESSED])
