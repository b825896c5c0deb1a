"""Cells into columns: which cell of a block is the value of which native column of which row.

A columns file keeps, of each declared column of a row, one put. The kernel walks over the cells
once: those of a row are in the order of families and qualifiers, and so are the declared columns,
so that finding the column of a cell is a merge of two sorted lists, mostly one comparison.

Each row also gets the timestamp and the txn that most of its native cells have, by majority vote
(one candidate and one counter: a value that more than half of the cells share always wins). Only
cells that differ from it have to say so.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stele.kernels.block import (
    COUNT,
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_BYTES,
    VALUE_OFFSETS,
    Ints,
    Matrix,
)
from stele.kernels.compare import compare_bytes, same_row
from stele.kernels.jit import bulk, callee, quick
from stele.kernels.memory import (
    address_of,
    copy_bytes,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    store_i32,
    store_i64,
)

Places = npt.NDArray[np.int32]
"""For each row the cell that is the value of one column, or ``NO_CELL``."""

Flags = npt.NDArray[np.uint8]

NO_CELL = -1

UNCLEAR = -1
"""There are erasures, or several puts of one column: which is native has to be found out."""

# One native column: its family's code in the block, and where its qualifier lies.
FAMILY = 0
QUALIFIER = 1
QUALIFIER_LENGTH = 2
PIVOT_WIDTH = 3

_PUT = 4


@quick
def count_rows(block: Ints) -> int:
    """How many rows the cells of a block belong to."""
    at = address_of(block)
    rows = 0
    for cell in range(block[COUNT]):
        if cell == 0 or not same_row(at, cell - 1, cell):
            rows += 1
    return rows


@callee
def _compare_column(block: int, cell: int, column: int) -> int:
    """How a native column compares with the column of a cell."""
    order = load_i64(column + 8 * FAMILY) - load_i16(load_i64(block + 8 * FAMILY_CODES) + 2 * cell)
    if order != 0:
        return int(order)
    offsets = load_i64(block + 8 * QUALIFIER_OFFSETS) + 4 * cell
    start = load_i32(offsets)
    return compare_bytes(
        load_i64(column + 8 * QUALIFIER),
        load_i64(column + 8 * QUALIFIER_LENGTH),
        load_i64(block + 8 * QUALIFIER_BYTES) + start,
        load_i32(offsets + 4) - start,
    )


@bulk
def place_cells(
    block: Ints, chosen: Flags, columns: Matrix, places: Places, first_cells: Places, stamps: Ints
) -> int:
    """Find the native cells of a block; how many rows have one.

    ``chosen`` says which puts may be native, at most one for each column of a row. If it is empty,
    all may, and the answer is ``UNCLEAR`` where that is not enough to know. ``columns`` are sorted.
    ``places`` has, for each column, an entry for each row of the block, all ``NO_CELL``;
    rows without a native cell get no number. For the others ``first_cells`` gets one of their
    cells, and ``stamps`` the timestamp and txn most native cells have, one after the other.
    """
    at, table, count = address_of(block), address_of(columns), len(columns)
    capacity, clear = len(first_cells), len(chosen) == 0
    rows, column, votes_time, votes_txn, cells = 0, 0, 0, 0, 0
    time, txn = 0, 0
    for cell in range(block[COUNT]):
        if cell > 0 and not same_row(at, cell - 1, cell):
            if cells > 0:
                stamps[2 * rows], stamps[2 * rows + 1] = time, txn
                rows += 1
            column, votes_time, votes_txn, cells = 0, 0, 0, 0
        if load_i8(block[OPS] + cell) != _PUT:
            if clear:
                return UNCLEAR
            continue
        if not clear and chosen[cell] == 0:
            continue
        order = -1
        while column < count:
            order = _compare_column(at, cell, table + 8 * PIVOT_WIDTH * column)
            if order >= 0:
                break
            column += 1
        if column == count or order > 0:
            continue
        if clear and places[column * capacity + rows] != NO_CELL:
            return UNCLEAR
        places[column * capacity + rows] = cell
        first_cells[rows] = cell
        cells += 1
        own_time, own_txn = load_i64(block[TIMESTAMPS] + 8 * cell), load_i64(block[TXNS] + 8 * cell)
        if votes_time == 0:
            time = own_time
        votes_time += 1 if own_time == time else -1
        if votes_txn == 0:
            txn = own_txn
        votes_txn += 1 if own_txn == txn else -1
    if cells > 0:
        stamps[2 * rows], stamps[2 * rows + 1] = time, txn
        rows += 1
    return rows


@callee
def _value(block: int, cell: int) -> tuple[int, int]:
    """Where the value of a cell lies, and its length."""
    offsets = load_i64(block + 8 * VALUE_OFFSETS) + 4 * cell
    start = load_i32(offsets)
    return load_i64(block + 8 * VALUE_BYTES) + start, load_i32(offsets + 4) - start


@bulk
def take_fixed(block: Ints, places: Places, width: int, target: Flags) -> None:
    """The values of one column side by side, zeros where there is none.

    A value of another length is no value of the type: it loses its place.
    """
    at, out = address_of(block), address_of(target)
    for row in range(len(places)):
        if places[row] == NO_CELL:
            continue
        value, length = _value(at, places[row])
        if length != width:
            places[row] = NO_CELL
        elif width == 8:
            store_i64(out + 8 * row, load_i64(value))
        else:
            copy_bytes(out + width * row, value, width)


@bulk
def measure_values(block: Ints, places: Places) -> int:
    """Bytes of all values of one column."""
    at, size = address_of(block), 0
    for row in range(len(places)):
        if places[row] != NO_CELL:
            size += _value(at, places[row])[1]
    return size


@bulk
def take_binary(block: Ints, places: Places, offsets: Places, target: Flags) -> None:
    """The values of one column one after the other, and where each ends."""
    at, out, ends, reached = address_of(block), address_of(target), address_of(offsets), 0
    store_i32(ends, 0)
    for row in range(len(places)):
        if places[row] != NO_CELL:
            value, length = _value(at, places[row])
            copy_bytes(out + reached, value, length)
            reached += length
        store_i32(ends + 4 * row + 4, reached)


@bulk
def take_differences(
    block: Ints, column: int, places: Places, stamps: Ints, which: int, out: Ints, differs: Flags
) -> int:
    """The timestamps (or txns) of one column's cells, and which are not their row's; how many.

    ``column`` of the block holds them; ``which`` is 0 for timestamps and 1 for txns in ``stamps``.
    """
    found = 0
    for row in range(len(places)):
        if places[row] != NO_CELL:
            own = load_i64(block[column] + 8 * places[row])
            if own != stamps[2 * row + which]:
                out[row], differs[row] = own, 1
                found += 1
    return found
