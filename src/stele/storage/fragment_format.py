"""What a fragment file says of itself; ``docs/formats/fragment.md`` has every byte.

A fragment file is a Parquet file that any tool can read, with two additions Parquet readers step
over: an *index* with our metadata and a checksum of every part of the file, and a *trailer* of
fixed size that points to it, right in front of Parquet's own footer:

    PAR1 | row groups | bloom filters | index | trailer | Parquet footer | footer length | PAR1

The index names the checksum of every row group and bloom filter, the trailer those of the index
and of Parquet's footer. So a file proves itself from its end to its start, and 32 bits of the
index, kept in every reference to the file, prove that it is the file the reference meant.

The metadata is one JSON document. The same document stands under the key ``stele`` in Parquet's
footer for other tools; our reader takes the one in the index and need not parse that footer,
which takes milliseconds in a large file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from stele.errors import Corruption, InvalidArgument, UnsupportedFormat
from stele.storage.fragment_columns_format import NativePart
from stele.storage.fragment_name import parse_fragment_name

FORMAT_VERSION = 1
CELLS_LAYOUT = "cells"
COLUMNS_LAYOUT = "columns"
KNOWN_LAYOUTS = (CELLS_LAYOUT, COLUMNS_LAYOUT)
KNOWN_FEATURES: frozenset[str] = frozenset()
"""Features a file may require of its reader. There is none yet."""

METADATA_KEY = "stele"
"""Under which our metadata stands in Parquet's footer."""

PARQUET_MAGIC = b"PAR1"

FILE_GROUPS_MAX = 2_048
"""Row groups of a file at which the writer begins another: Spark parses the footer in each task."""

FILE_GROUPS_LIMIT = 32_767
"""Row groups a file may have at all. Only a single row of over 100 million cells gets there."""

GROUP_CELLS_MAX = 1 << 20
"""Cells of a row group, for the reader; writers cut at a hundredth of it."""

GROUP_RAW_BYTES_MAX = 512 * 1024 * 1024
"""A row group uncompressed, for the reader: what one damaged number may make it allocate."""

METADATA_BYTES_MAX = 16 * 1024 * 1024
INDEX_BYTES_MAX = 256 * 1024 * 1024
FOOTER_BYTES_MAX = 1024 * 1024 * 1024
"""Bounds on what is read before it can be checked. Real ones are a thousandth of these."""

HISTOGRAM_ENTRIES_MAX = 128
HISTOGRAM_KEY_BYTES_MAX = 64 * 1024
"""The histogram helps to split work evenly; long row keys make it coarser, not larger."""

Count = Annotated[int, msgspec.Meta(ge=0)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Checksum = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]


class Erasures(msgspec.Struct, frozen=True):
    """How many erasures of each kind there are."""

    row: Count = 0
    family: Count = 0
    column: Count = 0
    cell: Count = 0

    @property
    def total(self) -> int:
        return self.row + self.family + self.column + self.cell


class FragmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cells of a file without reading them."""

    cells: Annotated[int, msgspec.Meta(ge=1)]
    rows: Annotated[int, msgspec.Meta(ge=1)]
    first_row: bytes
    last_row: bytes
    families: tuple[str, ...]
    """Those that occur, sorted; the empty one stands for row erasures."""
    txn_min: Int64
    txn_max: Int64
    put_timestamps: tuple[Int64, Int64] | None
    """The smallest and largest timestamp of a put; none if all cells are erasures."""
    erasures: Erasures
    versions_max: Count
    """The most puts that any one column of a row has."""

    @property
    def is_clean(self) -> bool:
        """Whether every cell is visible to a reader at or above ``txn_max`` that sees only it."""
        return self.versions_max <= 1 and not self.erasures.total

    def __post_init__(self) -> None:
        if self.first_row > self.last_row:
            raise InvalidArgument("the first row is above the last")
        if list(self.families) != sorted(set(self.families)) or not self.families:
            raise InvalidArgument("the families are not sorted and unique")
        if self.txn_min > self.txn_max:
            raise InvalidArgument("the smallest txn is above the largest")
        if self.rows > self.cells or self.erasures.total > self.cells:
            raise InvalidArgument("more rows or erasures than cells")


class IndexPointer(msgspec.Struct, frozen=True):
    """Where the index lies, and its checksum, which vouches for the rest of the file."""

    offset: Count
    size: Count
    crc: Checksum


class FragmentInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the writer reports of a durable file, and what references carry.

    A file of the columns layout may have a companion, a file of the cells layout with all cells
    that are not native. The two are one thing to whoever refers to them: the summary is that of
    both together.
    """

    name: str
    size: Count
    index: IndexPointer
    summary: FragmentSummary
    layout: str = CELLS_LAYOUT
    """One that this program does not know is refused, by name, when the file is opened."""
    companion: FragmentInfo | None = None

    def __post_init__(self) -> None:
        parse_fragment_name(self.name)
        inner = self.companion
        if inner is not None and (
            self.layout != COLUMNS_LAYOUT
            or inner.layout != CELLS_LAYOUT
            or inner.name == self.name
            or inner.summary.cells >= self.summary.cells
        ):
            raise InvalidArgument(f"{self.name} cannot have the companion {inner.name}")

    @property
    def files(self) -> tuple[FragmentInfo, ...]:
        """The file itself, and its companion if there is one."""
        return (self,) if self.companion is None else (self, self.companion)

    @property
    def total_bytes(self) -> int:
        """The size of all its files."""
        return sum(file.size for file in self.files)


class HistogramEntry(msgspec.Struct, frozen=True, array_like=True):
    """An existing row, with the cells and compressed bytes of the file that are in front of it."""

    row: bytes
    cells_before: Count
    bytes_before: Count


class FragmentMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON document in the index and under ``stele`` in Parquet's footer."""

    format: int = FORMAT_VERSION
    layout: str = CELLS_LAYOUT
    features: tuple[str, ...] = ()
    table: str
    compression: str
    plain_pages: bool
    """Whether every row group has exactly the pages that our own decoder reads."""
    summary: FragmentSummary
    histogram: tuple[HistogramEntry, ...] = ()
    native: NativePart | msgspec.UnsetType = msgspec.UNSET
    """What a file of the columns layout has, and no other."""
    companion: FragmentInfo | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if (self.layout == COLUMNS_LAYOUT) == (self.native is msgspec.UNSET):
            raise InvalidArgument("native columns are for the columns layout, and only for it")

    @property
    def own_bounds(self) -> tuple[int, bytes, bytes]:
        """Cells, first and last row of the file itself, without a companion."""
        part = self.summary if isinstance(self.native, msgspec.UnsetType) else self.native
        return part.cells, part.first_row, part.last_row


class _Requirements(msgspec.Struct):
    """The part that every version of the format keeps: what a reader has to know."""

    format: int
    layout: str
    features: tuple[str, ...] = ()


def encode_metadata(metadata: FragmentMetadata) -> bytes:
    """The document as JSON; the same metadata always gives the same bytes."""
    return msgspec.json.encode(metadata)


def decode_metadata(data: bytes, file: str) -> FragmentMetadata:
    """The document, or the reason why this program must not read the file."""
    try:
        check_requirements(msgspec.json.decode(data, type=_Requirements), file)
        metadata = msgspec.json.decode(data, type=FragmentMetadata)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidArgument) as error:
        raise Corruption(f"its metadata cannot be read: {error}", file=file) from error
    return metadata


def check_requirements(needed: _Requirements, file: str) -> None:
    """Refuse, by name, what this program does not know."""
    if needed.format != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{file}: fragment format {needed.format}, this program reads {FORMAT_VERSION}"
        )
    if needed.layout not in KNOWN_LAYOUTS:
        raise UnsupportedFormat(
            f"{file}: fragment layout {needed.layout!r}, this program reads "
            f"{', '.join(KNOWN_LAYOUTS)}"
        )
    unknown = sorted(set(needed.features) - KNOWN_FEATURES)
    if unknown:
        raise UnsupportedFormat(f"{file}: needs features this program lacks: {', '.join(unknown)}")


def make_histogram(
    rows: Sequence[bytes], cells: Sequence[int], sizes: Sequence[int]
) -> tuple[HistogramEntry, ...]:
    """Evenly spaced rows among the first rows of row groups that begin with a new row.

    ``cells`` and ``sizes`` are those in front of each of ``rows``.
    """
    longest = max(map(len, rows), default=1)
    wanted = max(1, min(HISTOGRAM_ENTRIES_MAX, HISTOGRAM_KEY_BYTES_MAX // max(longest, 1)))
    step = -(-len(rows) // wanted) if rows else 1
    return tuple(HistogramEntry(rows[at], cells[at], sizes[at]) for at in range(0, len(rows), step))
