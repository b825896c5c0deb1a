"""Columns into cells: the opposite of ``pivot``, for reading files of the columns layout.

Rows are walked in order, and within a row the columns in the order of cells, so that what comes out
is sorted. Values are turned into their canonical bytes on the way: numbers most significant byte
first, text and bytes as they are. A null is no cell.

A native column is one row of ``COLUMN_WIDTH`` int64:

    VALID     address of the bitmap of values that are there, 0 for all; VALID_BIT its first bit
    DATA      address of the values, least significant byte first
    OFFSETS   address of the offsets of values of any length, else 0
    WIDTH     bytes of a value of fixed length
    TIMES     address of the timestamps that differ from the row's, 0 for none, with a bitmap too
    TXNS      the same for txns
    FAMILY    code of its family in the block to be made
    QUALIFIER address of its qualifier, and QUALIFIER_LENGTH
"""

from __future__ import annotations

from stele.kernels import block as cells
from stele.kernels.block import Ints, Matrix
from stele.kernels.gather import copy_run
from stele.kernels.jit import bulk, inlined
from stele.kernels.memory import (
    address_of,
    copy_bytes,
    load_i32,
    load_i64,
    load_u8,
    load_u16_big_endian,
    load_u32_big_endian,
    load_u64_big_endian,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
)
from stele.kernels.runs import CELL_COUNT, QUALIFIER_SIZE, ROW_SIZE, VALUE_SIZE

VALID = 0
VALID_BIT = 1
DATA = 2
OFFSETS = 3
WIDTH = 4
TIMES = 5
TXNS = 8
BITMAP = 1  # behind TIMES and behind TXNS: the bitmap of those that are there,
FIRST_BIT = 2  # and its first bit
FAMILY = 11
QUALIFIER = 12
QUALIFIER_LENGTH = 13
COLUMN_WIDTH = 14

_PUT = 4


@inlined
def _is_set(bitmap: int, first: int, row: int) -> bool:
    bit = first + row
    return bitmap == 0 or (load_u8(bitmap + (bit >> 3)) >> (bit & 7)) & 1 == 1


@inlined
def _has_cell(column: int, row: int) -> bool:
    return _is_set(load_i64(column + 8 * VALID), load_i64(column + 8 * VALID_BIT), row)


@inlined
def _own_or(column: int, kind: int, row: int, common: int) -> int:
    """The timestamp or txn of a cell: its own if it has one, else the row's."""
    own = load_i64(column + 8 * kind)
    if own == 0:
        return common
    bitmap, first = column + 8 * (kind + BITMAP), column + 8 * (kind + FIRST_BIT)
    if _is_set(load_i64(bitmap), load_i64(first), row):
        return load_i64(own + 8 * row)
    return common


@inlined
def _value_length(column: int, row: int) -> int:
    offsets = load_i64(column + 8 * OFFSETS)
    if offsets == 0:
        return load_i64(column + 8 * WIDTH)
    return load_i32(offsets + 4 * row + 4) - load_i32(offsets + 4 * row)


@bulk
def measure_explosion(columns: Matrix, row_offsets: int, rows: int, totals: Ints) -> None:
    """How many cells there are and how many bytes they have, as totals of runs."""
    table, out = address_of(columns), address_of(totals)
    count, row_size, qualifier_size, value_size = 0, 0, 0, 0
    for number in range(len(columns)):
        column = table + 8 * COLUMN_WIDTH * number
        present = 0
        for row in range(rows):
            if _has_cell(column, row):
                present += 1
                row_size += load_i32(row_offsets + 4 * row + 4) - load_i32(row_offsets + 4 * row)
                value_size += _value_length(column, row)
        count += present
        qualifier_size += present * load_i64(column + 8 * QUALIFIER_LENGTH)
    store_i64(out + CELL_COUNT, count)
    store_i64(out + ROW_SIZE, row_size)
    store_i64(out + QUALIFIER_SIZE, qualifier_size)
    store_i64(out + VALUE_SIZE, value_size)


@inlined
def _encode(column: int, row: int, target: int) -> int:
    """Write the canonical bytes of a value; how many they are."""
    data, width = load_i64(column + 8 * DATA), load_i64(column + 8 * WIDTH)
    offsets = load_i64(column + 8 * OFFSETS)
    if offsets != 0:
        start = load_i32(offsets + 4 * row)
        length = load_i32(offsets + 4 * row + 4) - start
        copy_run(target, data + start, length)
        return length
    value = data + width * row
    if width == 8:
        store_i64(target, load_u64_big_endian(value))
    elif width == 4:
        store_i32(target, load_u32_big_endian(value))
    elif width == 16:
        store_i64(target, load_u64_big_endian(value + 8))
        store_i64(target + 8, load_u64_big_endian(value))
    elif width == 2:
        store_i16(target, load_u16_big_endian(value))
    else:
        copy_bytes(target, value, width)
    return width


@bulk
def explode(
    columns: Matrix,
    row_offsets: int,
    row_bytes: int,
    times: int,
    txns: int,
    rows: int,
    out: Ints,
) -> None:
    """Write all cells to the addresses of a descriptor that has room for them."""
    table, count = address_of(columns), len(columns)
    cell, row_reached, qualifier_reached, value_reached = 0, 0, 0, 0
    for row in range(rows):
        row_start = load_i32(row_offsets + 4 * row)
        row_length = load_i32(row_offsets + 4 * row + 4) - row_start
        for number in range(count):
            column = table + 8 * COLUMN_WIDTH * number
            if not _has_cell(column, row):
                continue
            store_i32(out[cells.ROW_OFFSETS] + 4 * cell, row_reached)
            copy_run(out[cells.ROW_BYTES] + row_reached, row_bytes + row_start, row_length)
            row_reached += row_length
            store_i16(out[cells.FAMILY_CODES] + 2 * cell, load_i64(column + 8 * FAMILY))
            store_i32(out[cells.QUALIFIER_OFFSETS] + 4 * cell, qualifier_reached)
            length = load_i64(column + 8 * QUALIFIER_LENGTH)
            copy_run(
                out[cells.QUALIFIER_BYTES] + qualifier_reached,
                load_i64(column + 8 * QUALIFIER),
                length,
            )
            qualifier_reached += length
            time = _own_or(column, TIMES, row, load_i64(times + 8 * row))
            store_i64(out[cells.TIMESTAMPS] + 8 * cell, time)
            txn = _own_or(column, TXNS, row, load_i64(txns + 8 * row))
            store_i64(out[cells.TXNS] + 8 * cell, txn)
            store_i8(out[cells.OPS] + cell, _PUT)
            store_i32(out[cells.VALUE_OFFSETS] + 4 * cell, value_reached)
            value_reached += _encode(column, row, out[cells.VALUE_BYTES] + value_reached)
            cell += 1
    store_i32(out[cells.ROW_OFFSETS] + 4 * cell, row_reached)
    store_i32(out[cells.QUALIFIER_OFFSETS] + 4 * cell, qualifier_reached)
    store_i32(out[cells.VALUE_OFFSETS] + 4 * cell, value_reached)
