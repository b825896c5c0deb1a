"""Writes one file of the columns layout, without its companion.

It differs from a file of cells in what its row groups hold and in what its index says of them: the
size and checksum of each column, so that a reader of a few columns reads and verifies only those.
Bloom filters, index, trailer and footer stand where they stand in a file of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import crc32c
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stele.env import paths
from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import InvalidCells
from stele.kernels.bloom_build import FALSE_POSITIVES
from stele.kernels.parquet_thrift import TABLE_WIDTH, WALK_REASONS, walk_chunks
from stele.storage.fragment_columns_explode import NativeRows
from stele.storage.fragment_columns_format import (
    ROW,
    NativeColumn,
    NativePart,
    count_leaves,
    parquet_schema,
)
from stele.storage.fragment_file import FIRST_ROWS_BYTES_MAX
from stele.storage.fragment_format import (
    COLUMNS_LAYOUT,
    PARQUET_MAGIC,
    FragmentInfo,
    FragmentMetadata,
    FragmentSummary,
    IndexPointer,
    encode_metadata,
    make_histogram,
)
from stele.storage.fragment_index import CHUNK, GROUP, encode_index, encode_trailer
from stele.storage.fragment_options import FragmentOptions, parse_compression
from stele.storage.fragment_tail import Catcher, add_blooms, close_parquet

AFTER_GROUP = declare("storage.columns.after_group")
AFTER_FOOTER = declare("storage.columns.after_footer")
AFTER_SYNC = declare("storage.columns.after_sync")

ONE_PAGE_BYTES = 1 << 30
ONE_PAGE_ROWS = 1 << 30
"""So large that each column of a row group is one page: a row group is bounded anyway."""

DICTIONARY_SHARE_MAX = 0.5
"""A column gets a dictionary if it has fewer different values than this share of its rows."""


class ColumnsFileWriter:
    """One file being written. Not thread-safe; after an error only ``close`` may be called.

    ``first`` is the first row group: it shows which columns have few different values, and how many
    rows a row group has.
    """

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        table: str,
        columns: Sequence[NativeColumn],
        options: FragmentOptions,
        first: pa.RecordBatch,
    ):
        self.name = paths.basename(path)
        self._table = table
        self._columns = tuple(columns)
        self._options = options
        self._catcher = Catcher()
        arguments = _parquet_arguments(columns, options, first)
        self._parquet = pq.ParquetWriter(self._catcher, **arguments)
        self._leaves = count_leaves(columns)
        self._entries: list[tuple[int, ...]] = []
        self._chunks: list[tuple[int, int]] = []
        self._first_rows: list[bytes] = []
        self._first_rows_bytes = 0
        self._rows = 0
        self._cells = 0
        self._last_row = b""
        self._file = fs.create(path)

    @property
    def is_full(self) -> bool:
        """Whether the next row should begin another file."""
        return (
            len(self._entries) >= self._options.file_groups
            or self._file.position >= self._options.file_bytes
            or self._first_rows_bytes >= FIRST_ROWS_BYTES_MAX
        )

    def write_group(self, batch: pa.RecordBatch, cells: int) -> None:
        """Encode and write one row group; it has rows, and so many cells that are not null."""
        rows = batch.column(0)
        first_row: bytes = rows[0].as_py()
        offset = self._catcher.tell() if self._entries else len(PARQUET_MAGIC)
        try:
            self._parquet.write_batch(batch, row_group_size=1 << 30)
        except pa.ArrowException as error:
            raise InvalidCells(f"rows near {first_row[:64]!r} cannot be encoded") from error
        data = b"".join(self._catcher.take())
        body = data if self._entries else data[len(PARQUET_MAGIC) :]
        self._chunks += self._find_chunks(body, batch.num_rows)
        raw = NativeRows.of_batch(batch, self._columns).block_bytes()
        crc = crc32c.crc32c(body)
        self._entries.append((offset, 0, len(body), 0, raw, cells, crc, 0, 0, 0, 0, 0))
        self._first_rows.append(first_row)
        self._first_rows_bytes += len(first_row)
        self._rows += batch.num_rows
        self._cells += cells
        self._last_row = rows[len(rows) - 1].as_py()
        self._file.write(data)
        failpoint(AFTER_GROUP)

    def _find_chunks(self, body: bytes, rows: int) -> list[tuple[int, int]]:
        sizes = np.zeros(self._leaves, np.int64)
        entry = np.zeros(TABLE_WIDTH, np.int64)
        status = walk_chunks(pa.py_buffer(body).address, len(body), rows, entry, sizes)
        assert status == 0, f"pyarrow wrote pages we do not know: {WALK_REASONS[status]}"
        view, at, chunks = memoryview(body), 0, []
        for size in sizes.tolist():
            chunks.append((size, crc32c.crc32c(view[at : at + size])))
            at += size
        return chunks

    def finish(
        self, summary: FragmentSummary, companion: FragmentInfo | None, *, complete: bool
    ) -> FragmentInfo:
        """Write what follows the row groups and sync the file. Its directory is the caller's."""
        groups = np.array(self._entries, GROUP)
        metadata = encode_metadata(self._metadata(groups, summary, companion, complete=complete))
        blooms, footer = close_parquet(self._parquet, self._catcher, metadata)
        groups_end = int(groups["offset"][-1]) + int(groups["key_bytes"][-1])
        add_blooms(groups, self._parquet, blooms, groups_end)
        chunks = np.array(self._chunks, CHUNK).reshape(len(groups), self._leaves)
        index = encode_index(metadata, groups, self._first_rows, chunks)
        pointer = IndexPointer(groups_end + len(blooms), len(index), crc32c.crc32c(index))
        self._file.write(blooms, index, encode_trailer(pointer, footer), footer)
        failpoint(AFTER_FOOTER)
        self._file.sync()
        failpoint(AFTER_SYNC)
        size = self._file.position
        self._file.close()
        return FragmentInfo(
            name=self.name,
            size=size,
            index=pointer,
            summary=summary,
            layout=COLUMNS_LAYOUT,
            companion=companion,
        )

    def _metadata(
        self,
        groups: Any,
        summary: FragmentSummary,
        companion: FragmentInfo | None,
        *,
        complete: bool,
    ) -> FragmentMetadata:
        before = np.cumsum(groups["cells"], dtype=np.int64) - groups["cells"]
        metadata = FragmentMetadata(
            layout=COLUMNS_LAYOUT,
            table=self._table,
            compression=self._options.codec,
            plain_pages=False,
            summary=summary,
            histogram=make_histogram(self._first_rows, before.tolist(), groups["offset"].tolist()),
            native=NativePart(
                columns=self._columns,
                cells=self._cells,
                rows=self._rows,
                first_row=self._first_rows[0],
                last_row=self._last_row,
                complete=complete,
            ),
        )
        if companion is None:
            return metadata
        return msgspec.structs.replace(metadata, companion=companion)

    def close(self) -> None:
        """Close without finishing. Idempotent."""
        self._file.close()


def _parquet_arguments(
    columns: Sequence[NativeColumn], options: FragmentOptions, first: pa.RecordBatch
) -> dict[str, Any]:
    """Arguments of ``pyarrow.parquet.ParquetWriter``.

    Columns of few different values get a dictionary; floats do not, since theirs would not tell
    one NaN from another. Statistics are kept of all that has a fixed width, for predicates.
    """
    schema = parquet_schema(columns)
    codec, level = parse_compression(options.compression)
    dictionary = [
        field.name for number, field in enumerate(schema) if _has_few_values(first.column(number))
    ]
    lengths = [field.name for field in schema if _has_any_length(field.type)]
    plain = [field.name for field in schema if not _has_any_length(field.type)]
    encodings = dict.fromkeys(lengths, "DELTA_LENGTH_BYTE_ARRAY") | dict.fromkeys(plain, "PLAIN")
    return {
        "schema": schema,
        "compression": codec,
        "compression_level": level,
        "use_dictionary": dictionary,
        "column_encoding": {
            name: kind for name, kind in encodings.items() if name not in dictionary
        },
        "write_statistics": [ROW, *plain],
        "write_page_checksum": True,
        "data_page_version": "1.0",
        "data_page_size": ONE_PAGE_BYTES,
        "max_rows_per_page": ONE_PAGE_ROWS,
        "sorting_columns": pq.SortingColumn.from_ordering(schema, [(ROW, "ascending")]),
        "bloom_filter_options": {ROW: {"ndv": first.num_rows, "fpp": FALSE_POSITIVES}},
    }


def _has_any_length(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _has_few_values(array: pa.Array) -> bool:
    """Whether a dictionary pays."""
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return False
    different = pc.count_distinct(array, mode="only_valid").as_py()
    return bool(different < DICTIONARY_SHARE_MAX * len(array))
