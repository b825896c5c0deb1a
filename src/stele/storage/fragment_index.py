"""The index of a fragment file: where each row group lies, its first row, and its checksums.

Opening a file reads only this. It is parsed once, and every number in it is checked against the
file and against its neighbours, so that whoever uses it later need not: row groups follow one
another from the start of the file without a gap, bloom filters follow them, first rows ascend.

A row that is larger than a row group spans several. A group that begins inside a row is marked as
*continuing*; the search for a row then begins where the row does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property

import crc32c
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import Corruption, UnsupportedFormat
from stele.kernels.parquet_pages import arena_bytes
from stele.kernels.row_index import RowIndex
from stele.model.ranges import RowRange
from stele.storage.fragment_format import (
    COLUMNS_LAYOUT,
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

CHUNK = np.dtype([("bytes", "<u4"), ("crc", "<u4")])
"""One column of one row group, in files of the columns layout."""

_HEADER = struct.Struct("<8sIIII")
"""Magic, bytes of metadata, row groups, bytes of first rows, columns that have chunks."""

_TRAILER = struct.Struct("<QIIIIII8s")
TRAILER_BYTES = _TRAILER.size
_TRAILER_SEALED_BYTES = TRAILER_BYTES - 4 - len(TRAILER_MAGIC)

Groups = npt.NDArray[np.void]
Chunks = npt.NDArray[np.void]
"""A row for each row group, an entry for each column."""
NO_CHUNKS: Chunks = np.empty((0, 0), CHUNK)
Damaged = Callable[[str], Corruption]


def encode_index(
    metadata: bytes, groups: Groups, first_rows: Sequence[bytes], chunks: Chunks = NO_CHUNKS
) -> bytes:
    """The bytes of an index."""
    offsets = np.zeros(len(first_rows) + 1, "<i4")
    np.cumsum([len(row) for row in first_rows], out=offsets[1:])
    sizes = len(metadata), len(groups), int(offsets[-1]), chunks.shape[1]
    return b"".join(
        [
            _HEADER.pack(INDEX_MAGIC, *sizes),
            groups.tobytes(),
            offsets.tobytes(),
            *first_rows,
            chunks.tobytes(),
            metadata,
        ]
    )


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
        self,
        metadata: FragmentMetadata,
        groups: Groups,
        first_rows: pa.BinaryArray,
        file: str,
        chunks: Chunks = NO_CHUNKS,
    ):
        self.metadata = metadata
        self.groups = groups
        self.chunks = chunks
        self.cells: list[int] = groups["cells"].tolist()
        continues = (groups["flags"] & CONTINUES).astype(np.uint8)
        _check_totals(metadata, groups, file)
        _check_chunks(metadata, groups, chunks, file)
        _check_order(metadata, first_rows, continues, file)
        # The kernels' index marks the block in front: the one whose last row goes on.
        self.rows = RowIndex(
            first_rows, np.append(continues[1:], np.uint8(0)), metadata.summary.last_row
        )
        """For kernels, and for searching here."""

    def __len__(self) -> int:
        return len(self.cells)

    def first_row(self, group: int) -> bytes:
        """The row of the first cell of a row group."""
        return self.rows.first_row(group)

    def continues(self, group: int) -> bool:
        """Whether a row group begins inside a row."""
        return group > 0 and self.rows.continues(group - 1)

    def groups_of_row(self, row: bytes) -> range:
        """The row groups that may hold cells of a row: one, unless the row spans several."""
        return self.groups_of_range(RowRange.row(row))

    def groups_of_range(self, rows: RowRange) -> range:
        """The row groups that may hold cells of a row range."""
        summary = self.metadata.summary
        if rows.start > summary.last_row:
            return range(0)
        if rows.end is not None and rows.end <= summary.first_row:
            return range(0)
        return self.rows.overlapping(rows)

    def block_bytes(self, group: int) -> int:
        """The memory a decoded row group takes."""
        return self.block_sizes[group]

    @cached_property
    def block_sizes(self) -> list[int]:
        """The memory of each decoded row group."""
        raw: list[int] = self.groups["raw_bytes"].tolist()
        if self.metadata.layout == COLUMNS_LAYOUT:
            return raw
        return [arena_bytes(size, cells) for size, cells in zip(raw, self.cells, strict=True)]


def _check_totals(metadata: FragmentMetadata, groups: Groups, file: str) -> None:
    cells, raw = groups["cells"], groups["raw_bytes"]
    if cells.min() < 1 or cells.max() > GROUP_CELLS_MAX or raw.max() > GROUP_RAW_BYTES_MAX:
        raise Corruption("a row group has an impossible size", file=file)
    if int(cells.sum(dtype=np.int64)) != metadata.own_bounds[0]:
        raise Corruption("its row groups have another number of cells than it", file=file)


def _check_chunks(metadata: FragmentMetadata, groups: Groups, chunks: Chunks, file: str) -> None:
    """In the columns layout the columns of a row group are all of its bytes."""
    if isinstance(metadata.native, msgspec.UnsetType):
        if chunks.size:
            raise Corruption("a file of cells has an index of columns", file=file)
        return
    if chunks.shape != (len(groups), metadata.native.leaves):
        raise Corruption("its index has other columns than it", file=file)
    sizes = chunks["bytes"].sum(axis=1, dtype=np.int64)
    if (sizes != groups["key_bytes"]).any() or groups["value_bytes"].any():
        raise Corruption("its columns have other sizes than its row groups", file=file)


def _check_order(
    metadata: FragmentMetadata,
    rows: pa.BinaryArray,
    continues: npt.NDArray[np.uint8],
    file: str,
) -> None:
    """First rows ascend, and only a group that continues a row may repeat one."""
    before, after = rows[:-1], rows[1:]
    ascends = pc.greater(after, before).to_numpy(zero_copy_only=False)
    repeats = pc.equal(after, before).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~(ascends | (repeats & continues[1:].astype(bool))))
    if len(wrong):
        raise Corruption(f"row group {wrong[0] + 1} begins below the one before it", file=file)
    first, last = rows[0].as_py(), rows[-1].as_py()
    _, first_row, last_row = metadata.own_bounds
    if continues[0] or first != first_row or last > last_row:
        raise Corruption("its first rows contradict its row bounds", file=file)


def decode_index(data: bytes, pointer: IndexPointer, file: str) -> FragmentIndex:
    """Parse and check an index that was read from where ``pointer`` says."""

    def damaged(reason: str) -> Corruption:
        return Corruption(reason, file=file, offset=pointer.offset)

    if len(data) != pointer.size or crc32c.crc32c(data) != pointer.crc:
        raise damaged("the index's checksum is wrong")
    if len(data) < _HEADER.size:
        raise damaged("the index is too short")
    magic, metadata_bytes, count, row_bytes, leaves = _HEADER.unpack_from(data)
    if magic != INDEX_MAGIC:
        raise damaged("the index does not begin like one")
    if not 1 <= count <= FILE_GROUPS_LIMIT or metadata_bytes > METADATA_BYTES_MAX:
        raise damaged("the index has an impossible size")
    offsets_at = _HEADER.size + count * GROUP.itemsize
    rows_at = offsets_at + 4 * (count + 1)
    chunks_at = rows_at + row_bytes
    metadata_at = chunks_at + count * leaves * CHUNK.itemsize
    if metadata_at + metadata_bytes != len(data):
        raise damaged("the index has another size than its parts")
    groups = np.frombuffer(data, GROUP, count, _HEADER.size)
    offsets = np.frombuffer(data, "<i4", count + 1, offsets_at)
    if offsets[0] != 0 or offsets[-1] != row_bytes or (np.diff(offsets) < 0).any():
        raise damaged("the first rows in the index do not fit together")
    stored = pa.py_buffer(data)
    first_rows = pa.Array.from_buffers(
        pa.binary(), count, [None, stored.slice(offsets_at), stored.slice(rows_at)]
    )
    _check_places(groups, pointer.offset, damaged)
    metadata = decode_metadata(data[metadata_at:], file)
    chunks = np.frombuffer(data, CHUNK, count * leaves, chunks_at).reshape(count, leaves)
    return FragmentIndex(metadata, groups, first_rows, file, chunks)


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
