"""What a fragment's metadata says of its cells, gathered in one pass while they are written.

The pass also checks the order: a fragment is a sorted, unique sequence, and a file that is not
would answer wrongly for ever. Cells arrive a row group at a time, so the last cell of the group
before is passed along, and counts that run across the border live in the state.

The other two kernels find where a row group may end: row groups are cut between rows, at about a
number of cells and below a number of bytes.
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
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_OFFSETS,
)
from stele.kernels.compare import compare_bytes, row_address, row_length, same_row
from stele.kernels.jit import bulk, callee, quick
from stele.kernels.memory import address_of, load_i8, load_i16, load_i32, load_i64

Ints = npt.NDArray[np.int64]

# Slots of the state.
ROWS = 0
TXN_MIN = 1
TXN_MAX = 2
PUT_TIMESTAMP_MIN = 3
PUT_TIMESTAMP_MAX = 4
VERSIONS_RUN = 5  # puts seen so far of the column of the last cell
VERSIONS_MAX = 6
OP_COUNTS = 7  # five slots, one for each op
STATE_WIDTH = 12

FIXED_BYTES = 8 + 8 + 1 + 2
"""Of one cell, besides its row, qualifier and value: timestamp, txn, op and family code."""

_PUT = 4
_CLASS_MAX = 2
_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)

_DISORDER = -1
_NEW_ROW = 0
_NEW_COLUMN = 1
_SAME_COLUMN = 2


def new_state() -> Ints:
    """The state before the first cell."""
    state = np.zeros(STATE_WIDTH, np.int64)
    state[TXN_MIN] = state[PUT_TIMESTAMP_MIN] = _INT64_MAX
    state[TXN_MAX] = state[PUT_TIMESTAMP_MAX] = _INT64_MIN
    return state


# In the callees a block is the address of its descriptor.


@callee
def _compare_qualifiers(one: int, a: int, two: int, b: int) -> int:
    a_offsets = load_i64(one + 8 * QUALIFIER_OFFSETS) + 4 * a
    b_offsets = load_i64(two + 8 * QUALIFIER_OFFSETS) + 4 * b
    a_start = load_i32(a_offsets)
    b_start = load_i32(b_offsets)
    return compare_bytes(
        load_i64(one + 8 * QUALIFIER_BYTES) + a_start,
        load_i32(a_offsets + 4) - a_start,
        load_i64(two + 8 * QUALIFIER_BYTES) + b_start,
        load_i32(b_offsets + 4) - b_start,
    )


@callee
def _step(one: int, a: int, two: int, b: int) -> int:
    """What changes from one cell to the next, which must be above it."""
    order = compare_bytes(
        row_address(one, a), row_length(one, a), row_address(two, b), row_length(two, b)
    )
    if order != 0:
        return _NEW_ROW if order < 0 else _DISORDER
    order = load_i16(load_i64(one + 8 * FAMILY_CODES) + 2 * a)
    order -= load_i16(load_i64(two + 8 * FAMILY_CODES) + 2 * b)
    a_op = load_i8(load_i64(one + 8 * OPS) + a)
    b_op = load_i8(load_i64(two + 8 * OPS) + b)
    if order == 0:
        order = min(a_op, _CLASS_MAX) - min(b_op, _CLASS_MAX)
    if order == 0:
        order = _compare_qualifiers(one, a, two, b)
    if order != 0:
        return _NEW_COLUMN if order < 0 else _DISORDER
    for column in (TIMESTAMPS, TXNS):
        left = load_i64(load_i64(one + 8 * column) + 8 * a)
        right = load_i64(load_i64(two + 8 * column) + 8 * b)
        if left != right:
            return _SAME_COLUMN if left > right else _DISORDER
    return _SAME_COLUMN if a_op < b_op else _DISORDER


@bulk
def survey(before: Ints, last: int, block: Ints, state: Ints, family_counts: Ints) -> int:
    """Add a block's cells to the state; the first cell that is out of order, or -1.

    ``before`` describes the block that holds the cell in front, at ``last``; -1 if there is none.
    Both blocks have codes for the same families, whose cells are counted in ``family_counts``.
    """
    two, one = address_of(block), address_of(before)
    txns, stamps, ops, codes = block[TXNS], block[TIMESTAMPS], block[OPS], block[FAMILY_CODES]
    txn_min, txn_max = state[TXN_MIN], state[TXN_MAX]
    stamp_min, stamp_max = state[PUT_TIMESTAMP_MIN], state[PUT_TIMESTAMP_MAX]
    rows, run, longest = state[ROWS], state[VERSIONS_RUN], state[VERSIONS_MAX]
    a = last
    for b in range(block[COUNT]):
        step = _step(one, a, two, b) if a >= 0 else _NEW_ROW
        if step == _DISORDER:
            return b
        rows += step == _NEW_ROW
        run = run if step == _SAME_COLUMN else 0
        txn = load_i64(txns + 8 * b)
        txn_min, txn_max = min(txn_min, txn), max(txn_max, txn)
        op = load_i8(ops + b)
        state[OP_COUNTS + op] += 1
        if op == _PUT:
            stamp = load_i64(stamps + 8 * b)
            stamp_min, stamp_max = min(stamp_min, stamp), max(stamp_max, stamp)
            run += 1
            longest = max(longest, run)
        family_counts[load_i16(codes + 2 * b)] += 1
        one, a = two, b
    state[TXN_MIN], state[TXN_MAX] = txn_min, txn_max
    state[PUT_TIMESTAMP_MIN], state[PUT_TIMESTAMP_MAX] = stamp_min, stamp_max
    state[ROWS], state[VERSIONS_RUN], state[VERSIONS_MAX] = rows, run, longest
    return -1


@quick
def last_row_start(block: Ints, low: int, high: int) -> int:
    """The largest cell in ``low … high`` that begins a row, given ``low`` ≥ 1; -1 if none does."""
    address = address_of(block)
    for cell in range(high, low - 1, -1):
        if not same_row(address, cell - 1, cell):
            return cell
    return -1


@quick
def first_row_start(block: Ints, low: int, high: int) -> int:
    """The smallest cell in ``low … high`` that begins a row, given ``low`` ≥ 1; -1 if none does."""
    address = address_of(block)
    for cell in range(low, high + 1):
        if not same_row(address, cell - 1, cell):
            return cell
    return -1


@callee
def _span(block: int, column: int, stop: int) -> int:
    offsets = load_i64(block + 8 * column)
    size: int = load_i32(offsets + 4 * stop) - load_i32(offsets)
    return size


@callee
def _raw_bytes(block: int, stop: int) -> int:
    return (
        stop * FIXED_BYTES
        + _span(block, ROW_OFFSETS, stop)
        + _span(block, QUALIFIER_OFFSETS, stop)
        + _span(block, VALUE_OFFSETS, stop)
    )


@quick
def cells_within(block: Ints, budget: int) -> int:
    """How many of the block's first cells together have at most ``budget`` bytes."""
    address = address_of(block)
    low = 0
    high = block[COUNT]
    while low < high:
        middle = (low + high + 1) // 2
        if _raw_bytes(address, middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


@quick
def raw_bytes(block: Ints) -> int:
    """The bytes of all cells of a block: rows, qualifiers, values and the fixed columns."""
    return _raw_bytes(address_of(block), block[COUNT])
