"""Native columns, as Arrow arrays, into the cells they stand for.

Both readers of columns files and writers use this: readers for the cells, writers to know how much
memory the cells of a row group will take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import LimitExceeded
from stele.kernels import explode as kernel
from stele.kernels.block import Block, Families, Ints
from stele.kernels.explode import COLUMN_WIDTH, explode, measure_explosion
from stele.kernels.gather import COLUMN_BYTES_MAX
from stele.kernels.runs import CELL_COUNT, QUALIFIER_SIZE, ROW_SIZE, TOTALS_WORDS, VALUE_SIZE
from stele.kernels.selection import ALIGNMENT, allocate_block, empty_block
from stele.model.columns import Column
from stele.storage.fragment_columns_format import KEY_LEAVES, NativeColumn

_CELL_BYTES = 3 * 4 + 2 + 8 + 8 + 1
"""Of a cell in a block, besides its row, qualifier and value."""

_BLOCK_BYTES = 3 * 4 + 10 * ALIGNMENT
"""Of a block, besides its cells: the last offsets, and what its columns are filled up with."""


@dataclass(frozen=True, slots=True)
class NativeValues:
    """The arrays of one column; stamps are none where no cell differs from its row."""

    column: Column
    values: pa.Array
    times: pa.Array | None = None
    txns: pa.Array | None = None


class NativeRows:
    """Keys, their timestamps and txns, and some native columns in the order of cells."""

    def __init__(self, keys: Sequence[pa.Array], columns: Sequence[NativeValues]):
        self._rows, self._times, self._txns = keys
        self._columns = columns
        self._keep: list[pa.Array] = []
        self._qualifiers = pa.py_buffer(b"".join(one.column.qualifier for one in columns) + b"\0")

    @staticmethod
    def of_batch(batch: pa.RecordBatch, columns: Sequence[NativeColumn]) -> NativeRows:
        """All columns of a batch with the schema of a file."""
        arrays = batch.columns
        found, at = [], KEY_LEAVES
        for column in columns:
            found.append(NativeValues(column.column, *arrays[at : at + column.leaves]))
            at += column.leaves
        return NativeRows(arrays[:KEY_LEAVES], found)

    def block_bytes(self) -> int:
        """The memory of the block of all cells."""
        _, cells, *sizes = self._measure(self._table(())).tolist()
        return int(_BLOCK_BYTES + _CELL_BYTES * cells + sum(sizes))

    def block(self, families: Families) -> Block:
        """The cells, with codes for a list that has all families."""
        table = self._table(families)
        totals = self._measure(table)
        if not totals[CELL_COUNT // 8]:
            return empty_block(families)
        sizes = totals[[ROW_SIZE // 8, QUALIFIER_SIZE // 8, VALUE_SIZE // 8]]
        if sizes.max() > COLUMN_BYTES_MAX:
            raise LimitExceeded("the cells of a row group have more than 2 GiB")
        descriptor, owner = allocate_block(totals)
        offsets, data = _binary(self._rows)
        times, txns = _fixed(self._times, 8), _fixed(self._txns, 8)
        explode(table, offsets, data, times, txns, len(self._rows), descriptor)
        return Block(descriptor, families, owner)

    def _measure(self, table: Ints) -> Ints:
        totals = np.zeros(TOTALS_WORDS, np.int64)
        measure_explosion(table, _binary(self._rows)[0], len(self._rows), totals)
        return totals

    def _table(self, families: Families) -> Ints:
        table = np.zeros((len(self._columns), COLUMN_WIDTH), np.int64)
        code_of = {name: code for code, name in enumerate(families)}
        qualifier = self._qualifiers.address
        for row, one in zip(table, self._columns, strict=True):
            self._describe(row, one)
            row[kernel.FAMILY] = code_of.get(one.column.family, 0)
            row[kernel.QUALIFIER] = qualifier
            row[kernel.QUALIFIER_LENGTH] = len(one.column.qualifier)
            qualifier += len(one.column.qualifier)
        return table

    def _describe(self, row: Ints, one: NativeValues) -> None:
        values = one.values
        if pa.types.is_boolean(values.type):
            values = pc.cast(values, pa.uint8())
            self._keep.append(values)
        row[kernel.VALID], row[kernel.VALID_BIT] = _bitmap(values)
        if pa.types.is_binary(values.type) or pa.types.is_string(values.type):
            row[kernel.OFFSETS], row[kernel.DATA] = _binary(values)
        else:
            width = values.type.bit_width // 8
            row[kernel.WIDTH], row[kernel.DATA] = width, _fixed(values, width)
        for place, stamps in ((kernel.TIMES, one.times), (kernel.TXNS, one.txns)):
            if stamps is not None and stamps.null_count < len(stamps):
                row[place] = _fixed(stamps, 8)
                bitmap = _bitmap(stamps)
                row[place + kernel.BITMAP], row[place + kernel.FIRST_BIT] = bitmap


def _bitmap(array: Any) -> tuple[int, int]:
    bitmap = array.buffers()[0]
    return (0, 0) if bitmap is None else (bitmap.address, array.offset)


def _fixed(array: Any, width: int) -> int:
    data = array.buffers()[1]
    return 0 if data is None else int(data.address) + width * int(array.offset)


def _binary(array: Any) -> tuple[int, int]:
    _, offsets, data = array.buffers()
    start = 0 if offsets is None else offsets.address + 4 * array.offset
    return start, 0 if data is None else data.address
