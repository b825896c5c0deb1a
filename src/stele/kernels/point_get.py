"""Reading one row in one call: search, merge, resolution and packing without leaving the kernel.

For each reference the kernel bisects the index, bisects the block, and stands a cursor at the row;
the cells of all references are merged and resolved exactly as in a scan, and what is visible is
packed into a buffer. If a block is not in memory it says so, and Python goes the slow way. Bloom
filters are asked only then: they are there to save a load, not a search.

The kernel keeps the GIL: it runs for a microsecond or two, and while it runs no block can be
dropped from under it.

Packed cells follow each other, numbers little-endian:

    family code u16 | qualifier length u16 | value length u32 | timestamp i64 | txn i64
    qualifier | value
"""

from __future__ import annotations

import struct

from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
    FAMILY_CODES,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_BYTES,
    VALUE_OFFSETS,
    Ints,
    Matrix,
)
from stele.kernels.bloom import hash_bytes, may_contain_hash
from stele.kernels.compare import compare_bytes, compare_row, prefix_after, row_end
from stele.kernels.filter_runs import CELLS_PER_ROW, holds_column, holds_value
from stele.kernels.jit import callee, quick
from stele.kernels.memory import (
    address_of,
    copy_bytes,
    load_i16,
    load_i32,
    load_i64,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
)
from stele.kernels.merge_rows import (
    CELL_CURSOR_BYTES,
    CELL_END,
    CELL_SOURCE,
    INDEX,
    SLOT,
    merge_cells,
)
from stele.kernels.point_index import (
    BLOCK_MATRIX,
    BLOOMS,
    FAMILY_ENTRIES,
    FENCE_END,
    FENCE_END_LENGTH,
    FENCE_START,
    FENCE_START_LENGTH,
    FRAGMENT_WIDTH,
    NO_END,
    ROW_ERASURES_REACH,
    TXN_COLUMN,
    USED,
)
from stele.kernels.resolve_runs import READ_LISTS, resolve_runs
from stele.kernels.row_index import COMMON, find_block, first_block_of, guess_cell, is_bounded
from stele.kernels.runs import RUN_BYTES, Runs, store_run
from stele.kernels.search import find_row, find_row_near
from stele.kernels.sources import ACTS_ON, CLEAN, FAMILY_MAP, SAME_CODES, SOURCE_WIDTH, SourceMatrix

CELL_HEAD = struct.Struct("<HHIqq")

# The scratch memory of a reader: where its parts lie, how much they hold, and what the kernel has
# to say besides its result.
SOURCES = 0
CURSORS = 1
ORDER = 2
MERGED = 3
CHOSEN = 4
STATE = 5
PACKED = 6
SOURCES_MAX = 7
CELLS_MAX = 8
PACKED_MAX = 9
SOURCES_NEEDED = 10
CELLS_NEEDED = 11
PACKED_NEEDED = 12
MISSING_BLOCK = 13
SCRATCH_WORDS = 14

TOO_SMALL = -1
"""The scratch memory has to grow; how much is needed is written in it."""
MISSING = -2
"""Minus the number of the fragment of which a block is not in memory."""


@callee
def within_fence(fragment: int, row: int, length: int) -> bool:
    """Whether a row lies inside the fence of a reference."""
    start_length = load_i64(fragment + 8 * FENCE_START_LENGTH)
    if start_length > 0:
        start = load_i64(fragment + 8 * FENCE_START)
        if compare_bytes(row, length, start, start_length) < 0:
            return False
    end_length = load_i64(fragment + 8 * FENCE_END_LENGTH)
    if end_length == NO_END:
        return True
    return compare_bytes(row, length, load_i64(fragment + 8 * FENCE_END), end_length) < 0


@callee
def excluded_by_bloom(fragment: int, block: int, row: int, length: int) -> bool:
    """Whether the bloom filter of a block, if it is in memory, says that a row is not there."""
    blooms = load_i64(fragment + 8 * BLOOMS)
    if blooms == 0 or load_i64(blooms + 16 * block) == 0:
        return False
    bitset, bits = load_i64(blooms + 16 * block), load_i64(blooms + 16 * block + 8)
    return not may_contain_hash(bitset, bits, hash_bytes(row, length))


@callee
def enter_block(fragment: int, descriptor: int, source: int) -> None:
    """Make a row of a source matrix from a descriptor and what its reference says of it."""
    for word in range(DESCRIPTOR_WIDTH):
        store_i64(source + 8 * word, load_i64(descriptor + 8 * word))
    txns = load_i64(fragment + 8 * TXN_COLUMN)
    if txns != 0:
        store_i64(source + 8 * TXNS, txns)
    store_i64(source + 8 * FAMILY_MAP, load_i64(fragment + 8 * FAMILY_ENTRIES))
    store_i64(source + 8 * ACTS_ON, load_i64(fragment + 8 * ROW_ERASURES_REACH))
    store_i64(source + 8 * CLEAN, 0)
    store_i64(source + 8 * SAME_CODES, 0)


@callee
def guess_in_block(fragment: int, block: int, source: int, row: int, length: int) -> int:
    """About where a row is in a block that the index names for it; -1: no idea."""
    if not is_bounded(fragment, block):
        return -1
    prefix = prefix_after(row, length, load_i64(fragment + 8 * COMMON))
    return guess_cell(fragment, block, source, load_i64(source + 8 * COUNT), prefix)


@callee
def find_span(fragment: int, source: int, row: int, length: int, guess: int) -> tuple[int, int]:
    """Where the cells of a row begin and end in a block."""
    count, skip = load_i64(source + 8 * COUNT), load_i64(fragment + 8 * COMMON)
    if guess >= 0:
        prefix = prefix_after(row, length, skip)
        start = find_row_near(source, count, row, length, prefix, skip, guess)
    else:
        start = find_row(source, count, row, length, 0)
    if start == count or compare_row(source, start, row, length) != 0:
        return start, start
    return start, row_end(source, start, count)


@callee
def set_cell_cursor(cursor: int, source: int, slot: int, start: int, stop: int) -> None:
    """A cursor for :func:`~stele.kernels.merge_rows.merge_cells`."""
    store_i64(cursor + INDEX, start)
    store_i64(cursor + CELL_END, stop)
    store_i64(cursor + CELL_SOURCE, source)
    store_i64(cursor + SLOT, slot)


@callee
def _find_cells(
    fragments: int, count: int, row: int, length: int, scratch: int
) -> tuple[int, int, int]:
    """Stand a cursor at the row in each block that has it.

    Returns the number of cursors, the cells they stand for, and 0 or what went wrong.
    """
    sources, cells = 0, 0
    sources_max = load_i64(scratch + 8 * SOURCES_MAX)
    for number in range(count):
        fragment = fragments + 8 * FRAGMENT_WIDTH * number
        block = find_block(fragment, row, length)
        if block < 0 or not within_fence(fragment, row, length):
            continue
        for at in range(first_block_of(fragment, block, row, length), block + 1):
            descriptor = load_i64(fragment + 8 * BLOCK_MATRIX) + 8 * DESCRIPTOR_WIDTH * at
            if load_i64(descriptor + 8 * COUNT) == 0:
                if excluded_by_bloom(fragment, at, row, length):
                    continue
                store_i64(scratch + 8 * MISSING_BLOCK, at)
                return sources, cells, MISSING - number
            store_i8(load_i64(fragment + 8 * USED) + at, 1)
            guess = guess_in_block(fragment, at, descriptor, row, length)
            start, stop = find_span(fragment, descriptor, row, length, guess)
            if start == stop:
                continue
            if sources < sources_max:
                source = load_i64(scratch + 8 * SOURCES) + 8 * SOURCE_WIDTH * sources
                enter_block(fragment, descriptor, source)
                cursor = load_i64(scratch + 8 * CURSORS) + CELL_CURSOR_BYTES * sources
                set_cell_cursor(cursor, source, sources, start, stop)
            sources += 1
            cells += stop - start
    return sources, cells, 0


@callee
def merge_cursors(cursors: int, count: int, order: int, runs: int, copies: bool) -> int:
    """The cells of one row from all cursors as runs; returns how many."""
    if count != 1:
        return merge_cells(cursors, count, order, runs, 0, copies)
    start = load_i64(cursors + INDEX)
    length = load_i64(cursors + CELL_END) - start
    return store_run(runs, 0, load_i64(cursors + SLOT), start, length, 1)


@callee
def _pack_cell(source: int, index: int, target: int, room: int) -> int:
    """Pack one cell if there is room; returns its size either way."""
    name_at = load_i64(source + 8 * QUALIFIER_OFFSETS) + 4 * index
    value_at = load_i64(source + 8 * VALUE_OFFSETS) + 4 * index
    name, value = load_i32(name_at), load_i32(value_at)
    name_size, value_size = load_i32(name_at + 4) - name, load_i32(value_at + 4) - value
    size = 24 + name_size + value_size
    if size > room:
        return size
    code = load_i16(load_i64(source + 8 * FAMILY_CODES) + 2 * index)
    store_i16(target, load_i16(load_i64(source + 8 * FAMILY_MAP) + 2 * code) >> 1)
    store_i16(target + 2, name_size)
    store_i32(target + 4, value_size)
    store_i64(target + 8, load_i64(load_i64(source + 8 * TIMESTAMPS) + 8 * index))
    store_i64(target + 16, load_i64(load_i64(source + 8 * TXNS) + 8 * index))
    copy_bytes(target + 24, load_i64(source + 8 * QUALIFIER_BYTES) + name, name_size)
    copy_bytes(target + 24 + name_size, load_i64(source + 8 * VALUE_BYTES) + value, value_size)
    return size


@callee
def pack_runs(
    matrix: int, runs: int, count: int, filters: int, target: int, target_max: int
) -> int:
    """Pack the cells of one row that the filters leave; returns the bytes they take.

    If they take more than ``target_max``, nothing can be said about what is in ``target``.
    """
    size, cells, cells_max = 0, 0, load_i64(filters + 8 * CELLS_PER_ROW)
    for number in range(count):
        run = runs + RUN_BYTES * number
        source = matrix + 8 * SOURCE_WIDTH * load_i32(run)
        start = load_i32(run + 4)
        for index in range(start, start + load_i32(run + 8)):
            if cells == cells_max:
                return size
            if holds_column(filters, source, index) and holds_value(filters, source, index):
                size += _pack_cell(source, index, target + size, target_max - size)
                cells += 1
    return size


@quick
def point_get(
    fragments: Matrix, count: int, key: bytes, read: Ints, filters: Ints, scratch_array: Ints
) -> int:
    """The bytes packed (0: no such row), ``TOO_SMALL``, or ``MISSING`` minus a fragment."""
    row, scratch = address_of(key), address_of(scratch_array)
    scratch_array[CELLS_NEEDED] = 0
    sources, cells, trouble = _find_cells(address_of(fragments), count, row, len(key), scratch)
    if trouble != 0 or sources == 0:
        return trouble
    if sources > scratch_array[SOURCES_MAX] or cells > scratch_array[CELLS_MAX]:
        scratch_array[SOURCES_NEEDED], scratch_array[CELLS_NEEDED] = sources, cells
        return TOO_SMALL
    merged, chosen = scratch_array[MERGED], scratch_array[CHOSEN]
    copies = read[READ_LISTS // 8] != 0
    runs = merge_cursors(scratch_array[CURSORS], sources, scratch_array[ORDER], merged, copies)
    matrix = scratch_array[SOURCES]
    runs = resolve_runs(matrix, merged, runs, scratch_array[STATE], address_of(read), chosen, 0)
    room = scratch_array[PACKED_MAX]
    size = pack_runs(matrix, chosen, runs, address_of(filters), scratch_array[PACKED], room)
    if size > room:
        scratch_array[PACKED_NEEDED] = size
        return TOO_SMALL
    return size


@quick
def pack_selection(
    matrix: SourceMatrix, runs: Runs, count: int, filters: Ints, scratch_array: Ints
) -> int:
    """Pack the cells of one row that were read some other way."""
    scratch_array[CELLS_NEEDED] = 0
    room = scratch_array[PACKED_MAX]
    size = pack_runs(
        address_of(matrix),
        address_of(runs),
        count,
        address_of(filters),
        scratch_array[PACKED],
        room,
    )
    if size > room:
        scratch_array[PACKED_NEEDED] = size
        return TOO_SMALL
    return size
