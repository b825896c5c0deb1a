"""Writes one fragment file, from its first row group to its trailer.

Row groups are encoded one by one (``fragment_encoder``) and written through the file system port,
so that a full or failing disk is seen where it can be named. Bloom filters follow the row groups,
then the index and the trailer, and Parquet's footer ends the file. Parquet allows that order, and
its readers find everything by offset.

A file becomes a fragment by its very last bytes. Whatever is cut off before them is not one, and
is refused when opened; the name of a file whose write failed is never used again.
"""

from __future__ import annotations

import crc32c
import numpy as np

from stele.env import paths
from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import LimitExceeded
from stele.storage.fragment_cutter import RowGroup
from stele.storage.fragment_encoder import EncodedGroup, GroupEncoder
from stele.storage.fragment_footer import GroupFacts, encode_footer
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
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_summary import SummaryBuilder

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
        self._encoder = GroupEncoder(options.compression)
        self._summary = SummaryBuilder()
        self._entries: list[tuple[int, ...]] = []
        self._facts: list[GroupFacts] = []
        self._blooms: list[bytes] = []
        self._first_rows_bytes = 0
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
        encoded = self._encoder.encode(group.parts)
        self._remember(group, encoded)
        magic = b"" if self._file.position else PARQUET_MAGIC
        self._file.write(magic, encoded.keys, encoded.value_header, encoded.value)
        failpoint(AFTER_GROUP)

    def _remember(self, group: RowGroup, encoded: EncodedGroup) -> None:
        """What index and footer will say of a row group, but for its bloom filter's place."""
        first, last = group.parts[0], group.parts[-1]
        facts = GroupFacts(
            cells=sum(part.count for part in group.parts),
            offset=self._file.position or len(PARQUET_MAGIC),
            page_sizes=encoded.page_sizes,
            first_row=first.row(0),
            last_row=last.row(last.count - 1),
        )
        value_crc = crc32c.crc32c(encoded.value, crc32c.crc32c(encoded.value_header))
        self._entries.append(
            (
                facts.offset,
                0,
                len(encoded.keys),
                len(encoded.value_header) + len(encoded.value),
                encoded.raw_bytes,
                facts.cells,
                crc32c.crc32c(encoded.keys),
                value_crc,
                len(encoded.bloom),
                crc32c.crc32c(encoded.bloom),
                CONTINUES if group.continues else 0,
                0,
            )
        )
        self._facts.append(facts)
        self._blooms.append(encoded.bloom)
        self._first_rows_bytes += len(facts.first_row)

    def finish(self) -> FragmentInfo:
        """Write what follows the row groups and sync the file. Its directory is the caller's."""
        summary = self._summary.build()
        groups = np.array(self._entries, GROUP)
        groups_end = self._file.position
        groups["bloom_offset"] = groups_end + np.cumsum(groups["bloom_bytes"], dtype=np.int64)
        groups["bloom_offset"] -= groups["bloom_bytes"]
        metadata = encode_metadata(
            FragmentMetadata(
                table=self._table,
                compression=self._options.codec,
                plain_pages=True,
                summary=summary,
                histogram=self._histogram(groups),
            )
        )
        blooms = b"".join(self._blooms)
        places = zip(groups["bloom_offset"].tolist(), groups["bloom_bytes"].tolist(), strict=True)
        footer = encode_footer(self._facts, list(places), self._options.codec, metadata)
        index = encode_index(metadata, groups, [facts.first_row for facts in self._facts])
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
            [self._facts[at].first_row for at in begins],
            cells_before[begins].tolist(),
            groups["offset"][begins].tolist(),
        )

    def close(self) -> None:
        """Close without finishing. Idempotent."""
        self._file.close()
