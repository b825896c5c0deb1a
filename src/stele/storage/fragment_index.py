"""The index of a fragment file: where each row group lies, its first row, and its checksums.

Opening a file reads only this. It is parsed once, and every number in it is checked against the
file and against its neighbours, so that whoever uses it later need not: row groups follow one
another from the start of the file without a gap, bloom filters follow them, first rows ascend.

A row that is larger than a row group spans several. A group that begins inside a row is marked as
*continuing*; the search for a row then begins where the row does.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import crc32c
import numpy as np
import numpy.typing as npt

from stele.errors import Corruption, UnsupportedFormat
from stele.kernels.parquet_pages import arena_bytes
from stele.model.ranges import RowRange
from stele.storage.fragment_format import (
    FILE_GROUPS_LIMIT,
    FORMAT_VERSION,
    GROUP_CELLS_MAX,
    GROUP_RAW_BYTES_MAX,
    METADATA_BYTES_MAX,
    PARQUET_MAGIC,
    FragmentMetadata,
    IndexPointer,
    decode_metadata,
)

INDEX_MAGIC = b"STELEIDX"
TRAILER_MAGIC = b"STELEFRG"

GROUP = np.dtype(
    [
        ("offset", "<i8"),
        ("bloom_offset", "<i8"),
        ("key_bytes", "<u4"),
        ("value_bytes", "<u4"),
        ("raw_bytes", "<u4"),
        ("cells", "<u4"),
        ("key_crc", "<u4"),
        ("value_crc", "<u4"),
        ("bloom_bytes", "<u4"),
        ("bloom_crc", "<u4"),
        ("flags", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""One row group. ``raw_bytes`` is the arena its pages are decompressed into."""

CONTINUES = 1
"""Flag of a row group that begins inside a row."""

_HEADER = struct.Struct("<8sIIII")
"""Magic, bytes of metadata, row groups, bytes of first rows, zero."""

_TRAILER = struct.Struct("<QIIIIII8s")
TRAILER_BYTES = _TRAILER.size
_TRAILER_SEALED_BYTES = TRAILER_BYTES - 4 - len(TRAILER_MAGIC)

Groups = npt.NDArray[np.void]
Damaged = Callable[[str], Corruption]


def encode_index(metadata: bytes, groups: Groups, first_rows: Sequence[bytes]) -> bytes:
    """The bytes of an index."""
    offsets = np.zeros(len(first_rows) + 1, "<u4")
    np.cumsum([len(row) for row in first_rows], out=offsets[1:])
    header = _HEADER.pack(INDEX_MAGIC, len(metadata), len(groups), int(offsets[-1]), 0)
    return b"".join([header, groups.tobytes(), offsets.tobytes(), *first_rows, metadata])


def encode_trailer(pointer: IndexPointer, footer: bytes) -> bytes:
    """The bytes that stand between the index and Parquet's footer, which runs to the file's end."""
    sealed = _TRAILER.pack(
        pointer.offset,
        pointer.size,
        pointer.crc,
        len(footer),
        crc32c.crc32c(footer),
        FORMAT_VERSION,
        0,
        TRAILER_MAGIC,
    )[:_TRAILER_SEALED_BYTES]
    return sealed + struct.pack("<I", crc32c.crc32c(sealed)) + TRAILER_MAGIC


def decode_trailer(data: bytes, file: str, offset: int) -> tuple[IndexPointer, int, int]:
    """Where the index is, and the length and checksum of everything behind the trailer."""
    assert len(data) == TRAILER_BYTES
    fields = _TRAILER.unpack(data)
    index_offset, index_bytes, index_crc, footer_bytes, footer_crc, version, crc, magic = fields
    if magic != TRAILER_MAGIC:
        raise UnsupportedFormat(f"{file}: a Parquet file, but no fragment: no trailer at {offset}")
    if crc != crc32c.crc32c(data[:_TRAILER_SEALED_BYTES]):
        raise Corruption("the trailer's checksum is wrong", file=file, offset=offset)
    if version != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{file}: fragment format {version}, this program reads {FORMAT_VERSION}"
        )
    return IndexPointer(index_offset, index_bytes, index_crc), footer_bytes, footer_crc


class FragmentIndex:
    """The parsed index of one file. Immutable; threads share it."""

    def __init__(
        self, metadata: FragmentMetadata, groups: Groups, first_rows: list[bytes], file: str
    ):
        self.metadata = metadata
        self.groups = groups
        self.first_rows = first_rows
        self.continues: list[bool] = (groups["flags"] & CONTINUES).astype(bool).tolist()
        self.cells: list[int] = groups["cells"].tolist()
        self._check_order(file)
        self._check_totals(file)

    def __len__(self) -> int:
        return len(self.first_rows)

    def groups_of_row(self, row: bytes) -> range:
        """The row groups that may hold cells of a row: one, unless the row spans several."""
        if row > self.metadata.summary.last_row:
            return range(0)
        return range(self._group_where_begins(row), bisect_right(self.first_rows, row))

    def groups_of_range(self, rows: RowRange) -> range:
        """The row groups that may hold cells of a row range."""
        summary = self.metadata.summary
        if rows.start > summary.last_row:
            return range(0)
        end = len(self) if rows.end is None else bisect_left(self.first_rows, rows.end)
        return range(self._group_where_begins(rows.start), end)

    def _group_where_begins(self, row: bytes) -> int:
        """The first group that may hold a cell at or above ``row``."""
        at = bisect_left(self.first_rows, row)
        if at < len(self) and self.first_rows[at] == row and not self.continues[at]:
            return at
        return max(at - 1, 0)

    def block_bytes(self, group: int) -> int:
        """The memory a decoded row group takes."""
        return arena_bytes(int(self.groups["raw_bytes"][group]), self.cells[group])

    def _check_order(self, file: str) -> None:
        rows, summary = self.first_rows, self.metadata.summary
        for at in range(1, len(rows)):
            above = rows[at] >= rows[at - 1] if self.continues[at] else rows[at] > rows[at - 1]
            if not above:
                raise Corruption(f"row group {at} begins below the one before it", file=file)
        if self.continues[0] or rows[0] != summary.first_row or rows[-1] > summary.last_row:
            raise Corruption("its first rows contradict its row bounds", file=file)

    def _check_totals(self, file: str) -> None:
        cells, raw = self.groups["cells"], self.groups["raw_bytes"]
        if cells.min() < 1 or cells.max() > GROUP_CELLS_MAX or raw.max() > GROUP_RAW_BYTES_MAX:
            raise Corruption("a row group has an impossible size", file=file)
        if int(cells.sum(dtype=np.int64)) != self.metadata.summary.cells:
            raise Corruption("its row groups have another number of cells than it", file=file)


def decode_index(data: bytes, pointer: IndexPointer, file: str) -> FragmentIndex:
    """Parse and check an index that was read from where ``pointer`` says."""

    def damaged(reason: str) -> Corruption:
        return Corruption(reason, file=file, offset=pointer.offset)

    if len(data) != pointer.size or crc32c.crc32c(data) != pointer.crc:
        raise damaged("the index's checksum is wrong")
    if len(data) < _HEADER.size:
        raise damaged("the index is too short")
    magic, metadata_bytes, count, row_bytes, _ = _HEADER.unpack_from(data)
    if magic != INDEX_MAGIC:
        raise damaged("the index does not begin like one")
    if not 1 <= count <= FILE_GROUPS_LIMIT or metadata_bytes > METADATA_BYTES_MAX:
        raise damaged("the index has an impossible size")
    offsets_at = _HEADER.size + count * GROUP.itemsize
    rows_at = offsets_at + 4 * (count + 1)
    if rows_at + row_bytes + metadata_bytes != len(data):
        raise damaged("the index has another size than its parts")
    groups = np.frombuffer(data, GROUP, count, _HEADER.size)
    offsets = np.frombuffer(data, "<u4", count + 1, offsets_at).astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != row_bytes or (np.diff(offsets) < 0).any():
        raise damaged("the first rows in the index do not fit together")
    bounds = (offsets + rows_at).tolist()
    first_rows = [data[bounds[at] : bounds[at + 1]] for at in range(count)]
    _check_places(groups, pointer.offset, damaged)
    metadata = decode_metadata(data[rows_at + row_bytes :], file)
    return FragmentIndex(metadata, groups, first_rows, file)


def _check_places(groups: Groups, index_offset: int, damaged: Damaged) -> None:
    """Row groups and then bloom filters fill the file up to the index, without gap or overlap."""
    sizes = groups["key_bytes"].astype(np.int64) + groups["value_bytes"]
    ends = groups["offset"] + sizes
    if groups["offset"][0] != len(PARQUET_MAGIC) or (groups["offset"][1:] != ends[:-1]).any():
        raise damaged("row groups do not follow one another")
    blooms = groups["bloom_offset"] + groups["bloom_bytes"]
    if groups["bloom_offset"][0] != ends[-1] or (groups["bloom_offset"][1:] != blooms[:-1]).any():
        raise damaged("bloom filters do not follow the row groups")
    if blooms[-1] != index_offset:
        raise damaged("the index does not follow the bloom filters")
