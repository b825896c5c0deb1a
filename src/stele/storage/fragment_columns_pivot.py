"""Cells into a piece of a columns file: what becomes native, and what its companion gets.

A cell is native if it is the newest put of a declared column that a reader of these cells sees, and
its value is the canonical encoding of a value of the column's type. All others stay cells. Which
put is the newest visible one is decided by the kernels that decide it for reads; without erasures
and with one version of each column there is nothing to decide.

A row that is larger than a row group stays cells as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.kernels.block import TIMESTAMPS, TXNS, Block, Families, Ints
from stele.kernels.pivot import (
    NO_CELL,
    PIVOT_WIDTH,
    UNCLEAR,
    Flags,
    Places,
    count_rows,
    measure_values,
    place_cells,
    take_binary,
    take_differences,
    take_fixed,
)
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.search import row_lower_bound, row_upper_bound
from stele.kernels.selection import select_masked
from stele.kernels.sources import Source
from stele.model.arrays import Bools
from stele.model.types import ValueType
from stele.model.value_codecs import FixedCodec
from stele.storage.fragment_columns_format import NativeColumn, parquet_schema


@dataclass(frozen=True, slots=True)
class Piece:
    """Cells of some whole rows, as a columns file and its companion take them."""

    native: pa.RecordBatch
    """Rows of the file; may be none."""
    cells: int
    """Native cells."""
    companion: tuple[Block, ...]
    """All other cells, in order."""
    differing: int
    """Native cells that differ from their row in timestamp or txn."""
    complete: bool
    """Whether no newest visible put of a native column is in the companion."""


@dataclass(frozen=True, slots=True)
class CutRows:
    """Whether a block begins or ends inside a row that is larger than a row group."""

    first: bool = False
    last: bool = False


NOT_CUT = CutRows()


class Placed:
    """A block whose native cells have been found. ``columns`` are in the order of cells."""

    def __init__(self, block: Block, columns: Sequence[NativeColumn], cut: CutRows = NOT_CUT):
        self.block = block
        self._start = row_upper_bound(block, block.row(0)) if cut.first else 0
        stop = block.count
        if cut.last:
            stop = max(self._start, row_lower_bound(block, block.row(block.count - 1)))
        self._whole = whole = block.slice(self._start, stop)
        self._places, self._firsts, self._stamps = find_places(whole, columns)
        placed = sum(int((own != NO_CELL).sum()) for own in self._places)
        self._values = [
            _decode(whole, own, column.value_type)
            for own, column in zip(self._places, columns, strict=True)
        ]
        self._valid = [own != NO_CELL for own in self._places]
        self.cells = sum(int(valid.sum()) for valid in self._valid)
        self.complete = self.cells == placed and whole.count == block.count
        self._times = [self._differences(number, TIMESTAMPS, 0) for number in range(len(columns))]
        self._txns = [self._differences(number, TXNS, 1) for number in range(len(columns))]

    def needs_stamps(self) -> tuple[bool, ...]:
        """For each column whether a cell of it differs from its row."""
        return tuple(
            times is not None or txns is not None
            for times, txns in zip(self._times, self._txns, strict=True)
        )

    @property
    def differing(self) -> int:
        """How many native cells differ from their row."""
        total = 0
        for times, txns in zip(self._times, self._txns, strict=True):
            flags = [own[1] for own in (times, txns) if own is not None]
            total += int(np.logical_or.reduce(flags).sum()) if flags else 0
        return total

    def piece(self, columns: Sequence[NativeColumn]) -> Piece:
        """The two halves; every column that needs its own stamps must have them."""
        return Piece(
            self._batch(columns), self.cells, self._companion(), self.differing, self.complete
        )

    def _differences(self, number: int, column: int, which: int) -> tuple[Ints, Flags] | None:
        places = self._places[number]
        out, differs = np.zeros(len(places), np.int64), np.zeros(len(places), np.uint8)
        found = take_differences(
            self._whole.descriptor, column, places, self._stamps, which, out, differs
        )
        return (out, differs) if found else None

    def _batch(self, columns: Sequence[NativeColumn]) -> pa.RecordBatch:
        rows = self._whole.batch.column("row").take(pa.array(self._firsts))
        arrays = [rows, pa.array(self._stamps[0::2]), pa.array(self._stamps[1::2])]
        for number, column in enumerate(columns):
            arrays.append(_with_nulls(self._values[number], self._valid[number]))
            times, txns = self._times[number], self._txns[number]
            assert column.own_stamps or (times is None and txns is None)
            if column.own_stamps:
                arrays += [_stamp_array(own, len(rows)) for own in (times, txns)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=parquet_schema(columns))
        alive = np.logical_or.reduce(self._valid) if self._valid else np.zeros(0, np.bool_)
        return batch if alive.all() else batch.filter(pa.array(alive))

    def _companion(self) -> tuple[Block, ...]:
        if self.cells == self.block.count:
            return ()
        rest = np.ones(self.block.count, np.bool_)
        for places, valid in zip(self._places, self._valid, strict=True):
            rest[places[valid] + self._start] = False
        return tuple(select_masked([self.block], [rest]).gather())


def find_places(block: Block, columns: Sequence[NativeColumn]) -> tuple[list[Places], Places, Ints]:
    """For each column the cells of its rows, a cell of each row, and each row's stamps."""
    capacity = count_rows(block.descriptor)
    table, qualifiers = _column_table(columns, block.families)
    firsts: Places = np.zeros(capacity, np.int32)
    stamps: Ints = np.zeros(2 * capacity, np.int64)
    rows, chosen = UNCLEAR, np.empty(0, np.uint8)
    while rows == UNCLEAR:
        places: Places = np.full(len(columns) * capacity, NO_CELL, np.int32)
        rows = place_cells(block.descriptor, chosen, table, places, firsts, stamps)
        if rows == UNCLEAR:
            chosen = newest_puts(block)
    del qualifiers  # the kernel had their addresses
    found = [places[at * capacity : at * capacity + rows] for at in range(len(columns))]
    return found, firsts[:rows], stamps[: 2 * rows]


def newest_puts(block: Block) -> Flags:
    """Which cells a read of one version of everything sees of the block alone."""
    selection = merge_resolve([Source(block)], ReadView(versions=1))
    if selection.cells == block.count:
        return np.ones(block.count, np.uint8)
    runs = selection.runs[: selection.run_count]
    edges = np.zeros(block.count + 1, np.int32)
    np.add.at(edges, runs[:, 1], 1)
    np.add.at(edges, runs[:, 1] + runs[:, 2], -1)
    return np.cumsum(edges[:-1]).astype(np.uint8)


def _column_table(columns: Sequence[NativeColumn], families: Families) -> tuple[Ints, bytes]:
    """The columns as the kernel takes them, and their qualifiers, which must stay alive.

    A column of a family that the block does not have is below every cell, and so never found.
    """
    qualifiers = b"".join(column.qualifier for column in columns) + b"\0"
    address = pa.py_buffer(qualifiers).address
    code_of = {name: code for code, name in enumerate(families)}
    table = np.zeros((len(columns), PIVOT_WIDTH), np.int64)
    for number, column in enumerate(columns):
        code = code_of.get(column.family, NO_CELL)
        table[number] = code, address, len(column.qualifier)
        address += len(column.qualifier)
    return table, qualifiers


def _decode(block: Block, places: Places, kind: ValueType) -> pa.Array:
    """The values of one column; those that do not decode lose their place."""
    codec = kind.codec
    if isinstance(codec, FixedCodec):
        target = np.zeros(max(1, len(places) * codec.width), np.uint8)
        take_fixed(block.descriptor, places, codec.width, target)
        matrix = target[: len(places) * codec.width].reshape(len(places), codec.width)
        values, good = codec.from_matrix(matrix)
        places[~good] = NO_CELL
        return values
    values, bad = kind.decode_array(gather_values(block, places))
    places[bad] = NO_CELL
    return values


def gather_values(block: Block, places: Places) -> pa.Array:
    """The bytes of the cells in some places, empty where there is none."""
    size = measure_values(block.descriptor, places)
    target, offsets = np.empty(size + 1, np.uint8), np.empty(len(places) + 1, np.int32)
    take_binary(block.descriptor, places, offsets, target)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(target)]
    return pa.Array.from_buffers(pa.binary(), len(places), buffers)


def _with_nulls(values: pa.Array, valid: Bools) -> pa.Array:
    return values if valid.all() else pc.if_else(pa.array(valid), values, None)


def _stamp_array(own: tuple[Ints, Flags] | None, count: int) -> pa.Array:
    if own is None:
        return pa.nulls(count, pa.int64())
    return pa.array(own[0], mask=own[1] == 0)
