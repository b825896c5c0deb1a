"""Row groups of columns files into blocks of cells.

pyarrow decodes the Parquet columns, a kernel turns them into cells. Both get bytes whose checksums
have been verified. Reads of few columns get a decoder of their own, which knows which parts of a
row group it needs.

pyarrow wants Parquet's footer, which is parsed when the first row group is decoded and not when the
file is opened: a file that is only referred to, or whose index says no, never pays for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stele.errors import Corruption, LimitExceeded
from stele.kernels.block import Block, Families
from stele.kernels.selection import empty_block
from stele.model.arrays import Ints
from stele.model.columns import ColumnSelection
from stele.storage.file_pieces import FilePieces, Piece
from stele.storage.fragment_columns_explode import NativeRows
from stele.storage.fragment_columns_format import (
    KEY_LEAVES,
    NativeColumn,
    NativePart,
    parquet_schema,
)
from stele.storage.fragment_index import FragmentIndex

CHOICES_KEPT = 64
"""Selections of columns whose decoders are kept: programs ask for the same few."""


class ColumnsDecoder:
    """The decoder of one file. Threads share it."""

    def __init__(self, index: FragmentIndex, read_footer: Callable[[], bytes], file: str):
        assert isinstance(index.metadata.native, NativePart)
        self._index = index
        self._native = index.metadata.native
        self._read_footer = read_footer
        self._file = file
        self._lock = threading.Lock()
        self._metadata: pq.FileMetaData | None = None
        self._choices: dict[ColumnSelection, ChosenColumns] = {}
        self._whole = self._chosen(self._native.columns)
        self.txns = NativeTxns(index, self._native, self.parquet, file)

    def decode(self, data: bytes, group: int, *, values: bool) -> Block:
        """The cells of a whole row group. Values cost nothing extra here, so they always come."""
        del values
        return self._whole.decode([(int(self._index.groups["offset"][group]), data)], group)

    def choose(self, selection: ColumnSelection) -> ChosenColumns:
        """The decoder of the columns that a selection holds."""
        known = self._choices.get(selection)
        if known is None:
            known = self._chosen(
                [
                    column
                    for column in self._native.columns
                    if selection.contains(column.family, column.qualifier)
                ]
            )
            if len(self._choices) < CHOICES_KEPT:
                self._choices[selection] = known
        return known

    def _chosen(self, columns: Sequence[NativeColumn]) -> ChosenColumns:
        return ChosenColumns(self._index, self._native, columns, self.parquet, self._file)

    def parquet(self) -> pq.FileMetaData:
        """Parquet's footer, parsed."""
        with self._lock:
            if self._metadata is None:
                self._metadata = self._parse()
            return self._metadata

    def _parse(self) -> pq.FileMetaData:
        try:
            metadata = pq.read_metadata(pa.BufferReader(self._read_footer()))
        except (pa.ArrowException, OSError) as error:
            raise Corruption(
                f"Parquet's footer cannot be read: {error}", file=self._file
            ) from error
        names = parquet_schema(self._native.columns).names
        if metadata.num_row_groups != len(self._index) or metadata.schema.names != names:
            raise Corruption("Parquet's footer is not that of the index", file=self._file)
        return metadata


class ChosenColumns:
    """Decodes some of the native columns. Threads share it."""

    def __init__(
        self,
        index: FragmentIndex,
        native: NativePart,
        columns: Sequence[NativeColumn],
        parquet: Callable[[], pq.FileMetaData],
        file: str,
    ):
        self._index = index
        self._columns = columns
        self._families: Families = index.metadata.summary.families
        self._parquet = parquet
        self._file = file
        self._leaves = list(range(KEY_LEAVES))
        at = KEY_LEAVES
        for column in native.columns:
            if column in columns:
                self._leaves += range(at, at + column.leaves)
            at += column.leaves
        self._schema = parquet_schema(columns)

    def chunks(self, group: int) -> Iterator[tuple[int, Chunk]]:
        """What has to be read of a row group."""
        return leaf_chunks(self._index, self._leaves if self._columns else (), group)

    def decode(self, parts: Sequence[Piece], group: int) -> Block:
        """The cells of a row group from the bytes that ``chunks`` asked for, or from all of it."""
        if not self._columns:
            return empty_block(self._families)
        offset = int(self._index.groups["offset"][group])
        try:
            rows = NativeRows.of_batch(self._read(parts, group), self._columns)
            block = rows.block(self._families)
        except (pa.ArrowException, OSError, KeyError, LimitExceeded) as error:
            raise Corruption(
                f"row group {group}: {error}", file=self._file, offset=offset
            ) from error
        if len(self._leaves) == self._index.chunks.shape[1] and (
            block.count != self._index.cells[group]
        ):
            raise Corruption(
                f"row group {group} has another number of cells than the index says",
                file=self._file,
                offset=offset,
            )
        return block

    def _read(self, parts: Sequence[Piece], group: int) -> pa.RecordBatch:
        table = _read_leaves(parts, self._parquet(), group, self._leaves)
        if table.schema.types != self._schema.types:
            table = table.cast(self._schema)
        return table.combine_chunks().to_batches()[0]


class NativeTxns:
    """Decodes the txns of native cells, and nothing else. Threads share it."""

    def __init__(
        self,
        index: FragmentIndex,
        native: NativePart,
        parquet: Callable[[], pq.FileMetaData],
        file: str,
    ):
        self._index = index
        self._parquet = parquet
        self._file = file
        self._leaves = [KEY_LEAVES - 1]
        at = KEY_LEAVES
        for column in native.columns:
            at += column.leaves
            if column.own_stamps:
                self._leaves.append(at - 1)

    def chunks(self, group: int) -> Iterator[tuple[int, Chunk]]:
        """What has to be read of a row group."""
        return leaf_chunks(self._index, self._leaves, group)

    def decode(self, parts: Sequence[Piece], group: int) -> Ints:
        """The txns of rows, and those of cells that differ from their row, in no order."""
        try:
            table = _read_leaves(parts, self._parquet(), group, self._leaves)
            columns = [column.drop_null().to_numpy() for column in table.columns]
        except (pa.ArrowException, OSError) as error:
            offset = int(self._index.groups["offset"][group])
            raise Corruption(
                f"row group {group}: {error}", file=self._file, offset=offset
            ) from error
        return np.concatenate(columns)


Chunk = tuple[int, int, int]
"""Offset, size and checksum of one Parquet column of a row group."""


def leaf_chunks(
    index: FragmentIndex, leaves: Iterable[int], group: int
) -> Iterator[tuple[int, Chunk]]:
    """Where some Parquet columns of a row group lie."""
    entries = index.chunks[group]
    ends = entries["bytes"].cumsum(dtype="i8") + int(index.groups["offset"][group])
    for leaf in leaves:
        size = int(entries["bytes"][leaf])
        yield leaf, (int(ends[leaf]) - size, size, int(entries["crc"][leaf]))


def _read_leaves(
    parts: Sequence[Piece], metadata: pq.FileMetaData, group: int, leaves: Sequence[int]
) -> pa.Table:
    parquet = pq.ParquetFile(FilePieces(parts), metadata=metadata, pre_buffer=False)
    return parquet.reader.read_row_group(group, leaves, use_threads=False)
