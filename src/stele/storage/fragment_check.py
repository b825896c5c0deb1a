"""Reads a whole fragment file and checks that everything said of it is true.

Opening a file verifies checksums: that the bytes are those that were written. This verifies the
writer: cells are in order, the summary, the first rows, the bloom filters and Parquet's own footer
say what the cells say. It is what a deep check of a table runs on every file.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from stele.env import paths
from stele.env.ports import FileSystem
from stele.errors import Corruption, InvalidCells
from stele.storage.fragment_columns_check import check_halves, check_native_part
from stele.storage.fragment_format import (
    CELLS_LAYOUT,
    METADATA_KEY,
    FragmentInfo,
    FragmentSummary,
    encode_metadata,
)
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_summary import SummaryBuilder


def check_fragment(fs: FileSystem, path: str, info: FragmentInfo | None = None) -> FragmentSummary:
    """The summary of a file that has been found to be right in every byte.

    ``Corruption`` names what is wrong; ``info`` is what a reference says of the file.
    """
    if info is not None:
        FragmentReader.open(fs, path, info).close()
    with FragmentReader.open(fs, path) as reader:
        _check_parquet_footer(reader, path)
        builder = SummaryBuilder()
        for group in range(len(reader.index)):
            _check_group(reader, group, builder, path)
        _check_summary(fs, reader, builder.build(), path)
        return reader.summary


def _check_summary(
    fs: FileSystem, reader: FragmentReader, found: FragmentSummary, path: str
) -> None:
    """What a file says of its cells, and of its companion if it has one."""
    metadata = reader.index.metadata
    if isinstance(metadata.native, msgspec.UnsetType):
        if found != reader.summary:
            raise Corruption("its summary is not that of its cells", file=path)
        return
    check_native_part(metadata.native, found, path)
    if isinstance(metadata.companion, msgspec.UnsetType):
        check_halves(reader, None, path)
        return
    beside = paths.join(paths.parent(path), metadata.companion.name)
    check_fragment(fs, beside, metadata.companion)
    with FragmentReader.open(fs, beside, metadata.companion) as companion:
        check_halves(reader, companion, path)


def _check_group(reader: FragmentReader, group: int, builder: SummaryBuilder, path: str) -> None:
    offset = int(reader.index.groups["offset"][group])
    block = reader.read_block(group)
    if block.row(0) != reader.index.first_row(group):
        raise Corruption(f"row group {group} begins with another row", file=path, offset=offset)
    try:
        builder.add(block)
    except InvalidCells as error:
        raise Corruption(f"row group {group}: {error}", file=path, offset=offset) from error
    if not reader.bloom(group).may_contain_many(block.batch.column("row")).all():
        raise Corruption(f"bloom filter {group} denies a row", file=path, offset=offset)


def _check_parquet_footer(reader: FragmentReader, path: str) -> None:
    """Other tools see the same row groups in the same places, and the same metadata."""
    footer = pq.read_metadata(pa.BufferReader(reader.read_footer()))
    groups = reader.index.groups
    if footer.num_row_groups != len(groups):
        raise Corruption("Parquet's footer has other row groups than the index", file=path)
    for number, entry in enumerate(groups):
        row_group = footer.row_group(number)
        start, _ = _place(row_group.column(0))
        _, end = _place(row_group.column(row_group.num_columns - 1))
        size = int(entry["key_bytes"]) + int(entry["value_bytes"])
        if (start, end) != (entry["offset"], entry["offset"] + size):
            raise Corruption(f"Parquet's footer has row group {number} elsewhere", file=path)
        if reader.index.metadata.layout == CELLS_LAYOUT and row_group.num_rows != entry["cells"]:
            raise Corruption(f"Parquet's footer has row group {number} larger", file=path)
    stored = (footer.metadata or {}).get(METADATA_KEY.encode())
    if stored != encode_metadata(reader.index.metadata):
        raise Corruption("Parquet's footer has other metadata than the index", file=path)


def _place(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where a column of a row group begins and ends; a dictionary comes before the values."""
    start = column.data_page_offset
    if column.has_dictionary_page:
        start = min(start, column.dictionary_page_offset)
    return start, start + column.total_compressed_size
