"""The kernel behind filters: which cells of a selection stay.

Its parameters are int64: five numbers, and then the lists of byte ranges (see
``stele.kernels.byte_ranges``) that the row, the qualifier and the value have to lie in.
"""

from __future__ import annotations

from stele.kernels.block import (
    FAMILY_CODES,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    VALUE_BYTES,
    VALUE_OFFSETS,
    Ints,
)
from stele.kernels.byte_ranges import LIST_BYTES, in_ranges
from stele.kernels.compare import equal_bytes, row_address, row_length
from stele.kernels.jit import bulk, callee
from stele.kernels.memory import address_of, load_i16, load_i32, load_i64
from stele.kernels.runs import RUN_BYTES, Runs, add_totals, append_run
from stele.kernels.sources import FAMILY_MAP, SOURCE_WIDTH, SourceMatrix

COLUMNS = 0
"""Address of one list of qualifier ranges for each common family code; 0 for all columns."""
ROW_LISTS = 1
ROW_LIST_COUNT = 2
QUALIFIER_LISTS = 3
QUALIFIER_LIST_COUNT = 4
VALUE_LISTS = 5
VALUE_LIST_COUNT = 6
CELLS_PER_ROW = 7
ROWS_MAX = 8
FILTER_WORDS = 9


@callee
def in_all_lists(lists: int, count: int, string: int, length: int) -> bool:
    """Whether a string lies in some range of every list."""
    number = 0
    while number < count and in_ranges(lists + LIST_BYTES * number, string, length):
        number += 1
    return number == count


@callee
def holds_column(filters: int, source: int, index: int) -> bool:
    """Whether the family and the qualifier of a cell are wanted."""
    offsets = load_i64(source + 8 * QUALIFIER_OFFSETS) + 4 * index
    begin = load_i32(offsets)
    length = load_i32(offsets + 4) - begin
    qualifier = load_i64(source + 8 * QUALIFIER_BYTES) + begin
    columns = load_i64(filters + 8 * COLUMNS)
    if columns != 0:
        code = load_i16(load_i64(source + 8 * FAMILY_CODES) + 2 * index)
        family = load_i16(load_i64(source + 8 * FAMILY_MAP) + 2 * code) >> 1
        if not in_ranges(columns + LIST_BYTES * family, qualifier, length):
            return False
    count = load_i64(filters + 8 * QUALIFIER_LIST_COUNT)
    return in_all_lists(load_i64(filters + 8 * QUALIFIER_LISTS), count, qualifier, length)


@callee
def holds_value(filters: int, source: int, index: int) -> bool:
    """Whether the value of a cell is wanted."""
    count = load_i64(filters + 8 * VALUE_LIST_COUNT)
    if count == 0:
        return True
    offsets = load_i64(source + 8 * VALUE_OFFSETS) + 4 * index
    begin = load_i32(offsets)
    value = load_i64(source + 8 * VALUE_BYTES) + begin
    length = load_i32(offsets + 4) - begin
    return in_all_lists(load_i64(filters + 8 * VALUE_LISTS), count, value, length)


@callee
def holds_row(filters: int, row: int, length: int) -> bool:
    """Whether a row is wanted."""
    count = load_i64(filters + 8 * ROW_LIST_COUNT)
    return in_all_lists(load_i64(filters + 8 * ROW_LISTS), count, row, length)


@bulk
def filter_runs(
    matrix_array: SourceMatrix,
    runs_array: Runs,
    run_count: int,
    parameters: Ints,
    out_array: Runs,
    totals: Ints,
) -> int:
    """Append the cells that stay to ``out``; returns how many rows have any."""
    matrix, filters = address_of(matrix_array), address_of(parameters)
    runs, out = address_of(runs_array), address_of(out_array)
    cells_max, rows_max = parameters[CELLS_PER_ROW], parameters[ROWS_MAX]
    row, row_size, row_holds, row_cells, rows, count = 0, -1, False, 0, 0, 0
    for number in range(run_count):
        run = runs + RUN_BYTES * number
        slot, start, stop = load_i32(run), load_i32(run + 4), load_i32(run + 4) + load_i32(run + 8)
        source = matrix + 8 * SOURCE_WIDTH * slot
        for index in range(start, stop):
            own, size = row_address(source, index), row_length(source, index)
            if size != row_size or not equal_bytes(own, row, size):
                row_holds, row_cells = holds_row(filters, own, size), 0
            row, row_size = own, size
            if not row_holds or row_cells >= cells_max:
                continue
            if not holds_column(filters, source, index) or not holds_value(filters, source, index):
                continue
            if row_cells == 0:
                if rows == rows_max:
                    add_totals(matrix, out, count, address_of(totals))
                    return rows
                rows += 1
            row_cells += 1
            count = append_run(out, count, slot, index, 1)
    add_totals(matrix, out, count, address_of(totals))
    return rows
