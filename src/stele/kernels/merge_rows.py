"""The merge itself: sorted sources in, runs of cells in cell order out.

Rows first. The sources stand in a list sorted by the row each has reached. Most rows come from one
source; such a row is one run and its cells are never looked at. Only where several sources stand
at the same row are their cells merged, by the same method one level down.

Rows compare by the eight bytes that follow what *all* rows in play have in common, as one number,
and by the rest only when these are equal. Sorted sources make the common bytes cheap to find:
what the first and the last rows of all sources share, every row between them shares.

The list is searched from its front while it is short: one predictable loop beats a tree of
unpredictable branches. Beyond ``LINEAR_MAX`` sources the place is found by bisection and the list
is moved by ``memmove``. A heap is quicker from some dozens of sources on, by a fifth at 430 and by
half at 4,000; but the list has all sources that stand at one row side by side.

The merge stops when a source needs its next block and says which, so that the same code merges
whole blocks and endless streams of them. A row never spans two blocks of one source here; see
``stele.kernels.stream`` for how that is arranged.

The result is a list of runs, see ``stele.kernels.runs``.
"""

from __future__ import annotations

import numpy as np

from stele.kernels.block import (
    COUNT,
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_OFFSETS,
    Ints,
)
from stele.kernels.compare import (
    compare_bytes,
    leading_bytes,
    prefix_after,
    row_address,
    row_end,
    row_length,
    shared_length,
)
from stele.kernels.jit import callee, inlined
from stele.kernels.memory import (
    address_of,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u64,
    move_bytes,
    prefetch,
    store_i64,
)
from stele.kernels.runs import Runs, append_run, store_run
from stele.kernels.sources import FAMILY_MAP, SOURCE_WIDTH, SourceMatrix

LINEAR_MAX = 16
"""Up to this many entries the sorted list is searched from its front."""

# A row cursor: where one source stands. One cache line.
PREFIX = 0
ROW = 8
LENGTH = 16
START = 24
END = 32
CELLS = 40
SOURCE = 48
NUMBER = 56
ROW_CURSOR_BYTES = 64

# A cell cursor: where one source stands within a row that several have.
HEAD = 0
QUALIFIER_PREFIX = 8
QUALIFIER = 16
QUALIFIER_LENGTH = 24
TIMESTAMP = 32
INDEX = 40
CELL_END = 48
CELL_SOURCE = 56
SLOT = 64
CELL_CURSOR_BYTES = 72

WORKSPACE_BYTES = ROW_CURSOR_BYTES + CELL_CURSOR_BYTES + 8 + 8
"""For each source: both cursors and a place in both lists."""

# What the merge answers.
DONE = -1
"""Every source is at its end."""
PAUSED = -2
"""As many runs or bytes as were asked for; there is more."""
# 0 and above: the number of the source that needs its next block.


def workspace(sources: int) -> Ints:
    """Room for the cursors of so many sources."""
    return np.empty(max(sources, 1) * WORKSPACE_BYTES // 8, np.int64)


# ------------------------------------------------------------------------------------------ rows


@callee
def _common_bytes(matrix: int, slots: Ints, positions: Ints) -> int:
    """How many leading bytes all rows still to come of the current blocks have in common."""
    row, skip = 0, 0
    for number in range(len(slots)):
        source = matrix + 8 * SOURCE_WIDTH * slots[number]
        count = load_i64(source + 8 * COUNT)
        if slots[number] < 0 or positions[number] >= count:
            continue
        first = positions[number]
        if row == 0:
            row, skip = row_address(source, first), row_length(source, first)
        for index in (first, count - 1):
            other = row_address(source, index)
            skip = shared_length(row, skip, other, row_length(source, index))
    return skip


@inlined
def _enter_row(cursor: int, start: int, skip: int) -> None:
    source = load_i64(cursor + SOURCE)
    row, length = row_address(source, start), row_length(source, start)
    store_i64(cursor + PREFIX, prefix_after(row, length, skip))
    store_i64(cursor + ROW, row)
    store_i64(cursor + LENGTH, length)
    store_i64(cursor + START, start)
    store_i64(cursor + END, row_end(source, start, load_i64(cursor + CELLS)))
    prefetch(load_i64(source + 8 * TIMESTAMPS) + 8 * start)
    prefetch(load_i64(source + 8 * TXNS) + 8 * start)
    prefetch(load_i64(source + 8 * QUALIFIER_OFFSETS) + 4 * start)
    prefetch(load_i64(source + 8 * FAMILY_CODES) + 2 * start)
    prefetch(load_i64(source + 8 * OPS) + start)
    prefetch(load_i64(source + 8 * VALUE_OFFSETS) + 4 * start)


@inlined
def _row_before(a: int, b: int, skip: int) -> bool:
    """Whether cursor ``a`` stands at a smaller row than ``b``."""
    prefix_a, prefix_b = load_u64(a + PREFIX), load_u64(b + PREFIX)
    if prefix_a != prefix_b:
        return prefix_a < prefix_b
    return _compare_rest(a, b, skip) < 0


@callee
def _compare_rest(a: int, b: int, skip: int) -> int:
    return compare_bytes(
        load_i64(a + ROW) + skip,
        load_i64(a + LENGTH) - skip,
        load_i64(b + ROW) + skip,
        load_i64(b + LENGTH) - skip,
    )


@inlined
def _same_row(a: int, b: int, skip: int) -> bool:
    return load_u64(a + PREFIX) == load_u64(b + PREFIX) and _compare_rest(a, b, skip) == 0


@callee
def _place_row(order: int, gap: int, count: int, cursor: int, skip: int) -> None:
    """Put a cursor into the sorted list ``order[gap + 1 : count]``; the place ``gap`` is free."""
    low = gap + 1
    if count - low > LINEAR_MAX:
        high = count
        while low < high:
            middle = (low + high) >> 1
            if _row_before(load_i64(order + 8 * middle), cursor, skip):
                low = middle + 1
            else:
                high = middle
        move_bytes(order + 8 * gap, order + 8 * gap + 8, 8 * (low - gap - 1))
    else:
        while low < count:
            other = load_i64(order + 8 * low)
            if not _row_before(other, cursor, skip):
                break
            store_i64(order + 8 * low - 8, other)
            low += 1
    store_i64(order + 8 * low - 8, cursor)


# ----------------------------------------------------------------------------------------- cells


@inlined
def _enter_cell(cursor: int, index: int) -> None:
    source = load_i64(cursor + CELL_SOURCE)
    code = load_i16(load_i64(source + 8 * FAMILY_CODES) + 2 * index)
    family = load_i16(load_i64(source + 8 * FAMILY_MAP) + 2 * code) >> 1
    op = load_i8(load_i64(source + 8 * OPS) + index)
    offsets = load_i64(source + 8 * QUALIFIER_OFFSETS) + 4 * index
    start = load_i32(offsets)
    length = load_i32(offsets + 4) - start
    qualifier = load_i64(source + 8 * QUALIFIER_BYTES) + start
    store_i64(cursor + HEAD, 4 * family + min(op, 2))
    store_i64(cursor + QUALIFIER_PREFIX, leading_bytes(qualifier, length))
    store_i64(cursor + QUALIFIER, qualifier)
    store_i64(cursor + QUALIFIER_LENGTH, length)
    store_i64(cursor + TIMESTAMP, load_i64(load_i64(source + 8 * TIMESTAMPS) + 8 * index))
    store_i64(cursor + INDEX, index)


@inlined
def _compare_cells(a: int, b: int) -> int:
    """Two cell cursors in cell order: -1, 0 or 1."""
    head_a, head_b = load_i64(a + HEAD), load_i64(b + HEAD)
    if head_a != head_b:
        return -1 if head_a < head_b else 1
    prefix_a, prefix_b = load_u64(a + QUALIFIER_PREFIX), load_u64(b + QUALIFIER_PREFIX)
    if prefix_a != prefix_b:
        return -1 if prefix_a < prefix_b else 1
    length_a, length_b = load_i64(a + QUALIFIER_LENGTH), load_i64(b + QUALIFIER_LENGTH)
    if length_a != length_b or length_a > 8:
        order = compare_bytes(load_i64(a + QUALIFIER), length_a, load_i64(b + QUALIFIER), length_b)
        if order != 0:
            return order
    stamp_a, stamp_b = load_i64(a + TIMESTAMP), load_i64(b + TIMESTAMP)
    if stamp_a != stamp_b:
        return -1 if stamp_a > stamp_b else 1
    return _compare_commits(a, b)


@callee
def _compare_commits(a: int, b: int) -> int:
    """Two cells of the same column and timestamp: the highest txn first, then the op."""
    source_a, source_b = load_i64(a + CELL_SOURCE), load_i64(b + CELL_SOURCE)
    index_a, index_b = load_i64(a + INDEX), load_i64(b + INDEX)
    txn_a = load_i64(load_i64(source_a + 8 * TXNS) + 8 * index_a)
    txn_b = load_i64(load_i64(source_b + 8 * TXNS) + 8 * index_b)
    if txn_a != txn_b:
        return -1 if txn_a > txn_b else 1
    op_a = load_i8(load_i64(source_a + 8 * OPS) + index_a)
    op_b = load_i8(load_i64(source_b + 8 * OPS) + index_b)
    if op_a == op_b:
        return 0
    return -1 if op_a < op_b else 1


@inlined
def _find_cell(order: int, low: int, count: int, cursor: int) -> int:
    """Where a cursor belongs in ``order[low:count]``; -1 - place where an equal cell stands."""
    high = count
    if high - low <= LINEAR_MAX:
        while low < high:
            comparison = _compare_cells(load_i64(order + 8 * low), cursor)
            if comparison >= 0:
                return low if comparison > 0 else -1 - low
            low += 1
        return low
    while low < high:
        middle = (low + high) >> 1
        comparison = _compare_cells(load_i64(order + 8 * middle), cursor)
        if comparison == 0:
            return -1 - middle
        if comparison < 0:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _close_gap(order: int, gap: int, place: int) -> None:
    """Move ``order[gap + 1 : place]`` down by one."""
    if place - gap > LINEAR_MAX:
        move_bytes(order + 8 * gap, order + 8 * gap + 8, 8 * (place - gap - 1))
    else:
        for at in range(gap + 1, place):
            store_i64(order + 8 * at - 8, load_i64(order + 8 * at))


@inlined
def _place_cell(order: int, gap: int, count: int, cursor: int, index: int, copies: bool) -> bool:
    """Stand a cursor at the first cell from ``index`` on that no other stands at, and put it into
    the sorted list ``order[gap + 1 : count]``, using the free place ``gap``.

    The same cell in two sources appears once, or with ``copies`` as often as it occurs. False when
    no cell is left.
    """
    while index < load_i64(cursor + CELL_END):
        _enter_cell(cursor, index)
        place = _find_cell(order, gap + 1, count, cursor)
        if place < 0 and copies:
            place = -1 - place
        if place >= 0:
            _close_gap(order, gap, place)
            store_i64(order + 8 * place - 8, cursor)
            return True
        index += 1
    return False


@callee
def _add(runs: int, count: int, slot: int, start: int, length: int, first: int) -> int:
    if first != 0:
        return store_run(runs, count, slot, start, length, 1)
    return append_run(runs, count, slot, start, length)


@callee
def merge_cells(cursors: int, sources: int, order: int, runs: int, count: int, copies: bool) -> int:
    """Merge the cells of one row from several sources; returns the new number of runs.

    ``cursors`` lie one after the other, with index, end, source and slot filled in.
    """
    active, first = 0, 1
    for number in range(sources):
        cursor = cursors + CELL_CURSOR_BYTES * number
        # The list is built from its end, so that the free place is always the one before it.
        gap = sources - 1 - active
        if _place_cell(order, gap, sources, cursor, load_i64(cursor + INDEX), copies):
            active += 1
    order += 8 * (sources - active)
    while active > 1:
        cursor = load_i64(order)
        index = load_i64(cursor + INDEX)
        count = _add(runs, count, load_i64(cursor + SLOT), index, 1, first)
        first = 0
        if not _place_cell(order, 0, active, cursor, index + 1, copies):
            order += 8
            active -= 1
    if active == 1:
        cursor = load_i64(order)
        index = load_i64(cursor + INDEX)
        rest = load_i64(cursor + CELL_END) - index
        count = _add(runs, count, load_i64(cursor + SLOT), index, rest, first)
    return count


# ----------------------------------------------------------------------------------------- merge


@callee
def _enter_sources(
    matrix: int, slots: Ints, positions: Ints, skip: int, cursors: int, order: int
) -> int:
    """Stand a cursor at the first row of each source that has cells left; returns how many."""
    sources, active = len(slots), 0
    for number in range(sources):
        if slots[number] < 0:
            continue
        cursor = cursors + ROW_CURSOR_BYTES * number
        source = matrix + 8 * SOURCE_WIDTH * slots[number]
        store_i64(cursor + SOURCE, source)
        store_i64(cursor + CELLS, load_i64(source + 8 * COUNT))
        store_i64(cursor + NUMBER, number)
        _enter_row(cursor, positions[number], skip)
        _place_row(order, sources - 1 - active, sources, cursor, skip)
        active += 1
    return active


@callee
def _merge_group(
    order: int,
    group: int,
    slots: Ints,
    cells: int,
    cell_order: int,
    runs: int,
    count: int,
    copies: bool,
) -> int:
    """Merge the row at which the first ``group`` cursors stand."""
    for place in range(group):
        cursor = load_i64(order + 8 * place)
        cell = cells + CELL_CURSOR_BYTES * place
        store_i64(cell + INDEX, load_i64(cursor + START))
        store_i64(cell + CELL_END, load_i64(cursor + END))
        store_i64(cell + CELL_SOURCE, load_i64(cursor + SOURCE))
        store_i64(cell + SLOT, slots[load_i64(cursor + NUMBER)])
    return merge_cells(cells, group, cell_order, runs, count, copies)


@inlined
def _value_bytes(cursor: int) -> int:
    """Bytes of all values of the row a cursor stands at."""
    offsets = load_i64(load_i64(cursor + SOURCE) + 8 * VALUE_OFFSETS)
    return load_i32(offsets + 4 * load_i64(cursor + END)) - load_i32(
        offsets + 4 * load_i64(cursor + START)
    )


@callee
def merge_rows(
    matrix_array: SourceMatrix,
    slots: Ints,
    positions: Ints,
    last: Ints,
    runs_array: Runs,
    work: Ints,
    runs_max: int,
    bytes_max: int,
    copies: bool,
) -> tuple[int, int]:
    """Merge whole rows until the sources, or what was asked for, is exhausted.

    ``slots[i]`` is the row of the matrix where source i's current block stands (-1: at its end),
    ``positions[i]`` the next cell in it, ``last[i]`` 1 when no block follows. Returns why it
    stopped (see the codes above) and the number of runs.
    """
    matrix, runs = address_of(matrix_array), address_of(runs_array)
    sources = len(slots)
    for number in range(sources):
        if slots[number] >= 0 and positions[number] == matrix_array[slots[number], COUNT]:
            if not last[number]:
                return number, 0
            slots[number] = -1
    cursors = address_of(work)
    order = cursors + ROW_CURSOR_BYTES * sources
    cell_order = order + 8 * sources
    cells = cell_order + 8 * sources
    skip = _common_bytes(matrix, slots, positions)
    active = _enter_sources(matrix, slots, positions, skip, cursors, order)
    order += 8 * (sources - active)
    count, size, answer = 0, 0, DONE
    while active > 0:
        first = load_i64(order)
        size += _value_bytes(first)
        group = 1
        while group < active and _same_row(first, load_i64(order + 8 * group), skip):
            size += _value_bytes(load_i64(order + 8 * group))
            group += 1
        if group == 1:
            start = load_i64(first + START)
            slot = slots[load_i64(first + NUMBER)]
            count = store_run(runs, count, slot, start, load_i64(first + END) - start, 1)
        else:
            count = _merge_group(order, group, slots, cells, cell_order, runs, count, copies)
        for place in range(group - 1, -1, -1):
            cursor = load_i64(order + 8 * place)
            number, end = load_i64(cursor + NUMBER), load_i64(cursor + END)
            positions[number] = end
            if end < load_i64(cursor + CELLS):
                _enter_row(cursor, end, skip)
                _place_row(order, place, active, cursor, skip)
            else:
                if last[number]:
                    slots[number] = -1
                else:
                    answer = number
                move_bytes(order + 8, order, 8 * place)
                order += 8
                active -= 1
        if answer >= 0:
            break
        if count >= runs_max or size >= bytes_max:
            answer = PAUSED if active > 0 else DONE
            break
    return answer, count
