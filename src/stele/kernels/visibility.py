"""Which cells of a row are hidden: the state of one pass over its cells in cell order.

Whatever hides a cell comes before it, so one pass is enough. What has to be remembered:

    row and family erasures    all that may still reach a cell: a *frontier*
    column erasures            the highest txn seen in the column; as timestamps only fall within
                               a column, every one seen reaches every cell still to come
    cell erasures              the timestamp and the highest txn of the last one
    the version                the timestamp of the last put that counted

An erasure (timestamp, txn) hides a put when its timestamp is not below and its txn is above. Of two
erasures one is useless when the other is at least as high in both. Erasures arrive by falling
timestamp, so one is useful exactly if its txn is above all before it: what remains is a Pareto
frontier, timestamps falling, txns rising, and the erasure that decides about a put is the last one
whose timestamp reaches it, found by bisection. A thousand erasures of a row that arrive in the
order of time leave one entry.

The state is one record of int64 at an address, followed by the frontiers, because a kernel that
keeps it in an array would pay for passing the array.
"""

from __future__ import annotations

import numpy as np

from stele.kernels.block import Ints
from stele.kernels.compare import equal_bytes
from stele.kernels.jit import callee, inlined
from stele.kernels.memory import load_i64, load_u8, store_i64
from stele.model.cells import TIMESTAMP_MIN, Op

NEVER = TIMESTAMP_MIN
"""As the txn of an erasure: below every txn it could hide."""

# The record. Frontiers are counts of (timestamp, txn) pairs; where they lie is filled in once.
FAMILY = 0
QUALIFIER = 8
QUALIFIER_LENGTH = 16
COLUMN_TXN = 24
CELL_TIMESTAMP = 32
CELL_TXN = 40
PUT_TIMESTAMP = 48
PUT_SEEN = 56
VERSIONS = 64
ROW_COUNT = 72
FAMILY_COUNT = 80
LIST_COUNT = 88
ROW_FRONTIER = 96
FAMILY_FRONTIER = 104
LIST = 112
STATE_BYTES = 120

PAIR_BYTES = 16
LISTED_BYTES = 24
"""A row erasure with the table of the families it acts on, where sources differ in that."""

NO_FAMILY = -1

PUT = int(Op.PUT)
ERASE_ROW = int(Op.ERASE_ROW)
ERASE_FAMILY = int(Op.ERASE_FAMILY)
ERASE_COLUMN = int(Op.ERASE_COLUMN)


def visibility_state(cells: int) -> Ints:
    """A state with room for the erasures of a row of so many cells."""
    words = STATE_BYTES // 8
    state = np.empty(words + cells * (2 * PAIR_BYTES + LISTED_BYTES) // 8, np.int64)
    address = state.ctypes.data + STATE_BYTES
    state[ROW_FRONTIER // 8] = address
    state[FAMILY_FRONTIER // 8] = address + cells * PAIR_BYTES
    state[LIST // 8] = address + cells * PAIR_BYTES * 2
    return state


@inlined
def start_row(state: int) -> None:
    """Forget everything."""
    store_i64(state + FAMILY, NO_FAMILY)
    store_i64(state + ROW_COUNT, 0)
    store_i64(state + FAMILY_COUNT, 0)
    store_i64(state + LIST_COUNT, 0)


@inlined
def enter_column(state: int, family: int, qualifier: int, length: int) -> None:
    """Go to the column of the next cell, which may be the one of the last cell."""
    if family != load_i64(state + FAMILY):
        enter_family(state, family)
    elif length == load_i64(state + QUALIFIER_LENGTH) and equal_bytes(
        qualifier, load_i64(state + QUALIFIER), length
    ):
        return
    store_i64(state + QUALIFIER, qualifier)
    store_i64(state + QUALIFIER_LENGTH, length)
    store_i64(state + COLUMN_TXN, NEVER)
    store_i64(state + CELL_TXN, NEVER)
    store_i64(state + PUT_SEEN, 0)
    store_i64(state + VERSIONS, 0)


@callee
def enter_family(state: int, family: int) -> None:
    """Go to another family of the row: its frontier is empty, its column not known yet."""
    store_i64(state + FAMILY, family)
    store_i64(state + FAMILY_COUNT, 0)
    store_i64(state + QUALIFIER_LENGTH, -1)
    listed = load_i64(state + LIST_COUNT)
    if listed > 0:
        _choose_row_erasures(state, family, listed)


@callee
def _choose_row_erasures(state: int, family: int, listed: int) -> None:
    """The row frontier of those listed erasures that act on a family."""
    frontier, count = load_i64(state + ROW_FRONTIER), 0
    entry = load_i64(state + LIST)
    for _ in range(listed):
        if load_u8(load_i64(entry + 16) + family) != 0:
            count = extend_frontier(frontier, count, load_i64(entry), load_i64(entry + 8))
        entry += LISTED_BYTES
    store_i64(state + ROW_COUNT, count)


@callee
def list_row_erasure(state: int, timestamp: int, txn: int, acts_on: int) -> None:
    """Remember a row erasure that acts on some families only; see :func:`enter_family`."""
    count = load_i64(state + LIST_COUNT)
    entry = load_i64(state + LIST) + LISTED_BYTES * count
    store_i64(entry, timestamp)
    store_i64(entry + 8, txn)
    store_i64(entry + 16, acts_on)
    store_i64(state + LIST_COUNT, count + 1)


@callee
def extend_frontier(frontier: int, count: int, timestamp: int, txn: int) -> int:
    """Add an erasure, timestamps falling; the new length, unchanged when it is useless."""
    entry = frontier + PAIR_BYTES * count
    if count > 0 and load_i64(entry - 8) >= txn:
        return count
    store_i64(entry, timestamp)
    store_i64(entry + 8, txn)
    return count + 1


@callee
def reach(frontier: int, count: int, timestamp: int) -> int:
    """The highest txn of the erasures whose timestamp is not below the one given."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if load_i64(frontier + PAIR_BYTES * middle) >= timestamp:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return NEVER
    return load_i64(frontier + PAIR_BYTES * low - 8)


@inlined
def erased_above(state: int, timestamp: int) -> int:
    """The highest txn of the row and family erasures that reach a timestamp."""
    rows, families = load_i64(state + ROW_COUNT), load_i64(state + FAMILY_COUNT)
    highest = NEVER
    if rows > 0:
        highest = reach(load_i64(state + ROW_FRONTIER), rows, timestamp)
    if families > 0:
        highest = max(highest, reach(load_i64(state + FAMILY_FRONTIER), families, timestamp))
    return highest


@inlined
def erased_in_column(state: int, timestamp: int) -> int:
    """The highest txn of all erasures that reach a timestamp of the current column."""
    highest = max(erased_above(state, timestamp), load_i64(state + COLUMN_TXN))
    if load_i64(state + CELL_TIMESTAMP) == timestamp:
        highest = max(highest, load_i64(state + CELL_TXN))
    return highest


@callee
def note_erasure(
    state: int,
    op: int,
    family: int,
    qualifier: int,
    length: int,
    timestamp: int,
    txn: int,
    listed: int,
) -> None:
    """Remember the next erasure of a row. ``listed`` is the table of what row erasures act on,
    0 where all sources act on the same families."""
    if op == ERASE_ROW:
        if listed != 0:
            list_row_erasure(state, timestamp, txn, listed)
        else:
            count = load_i64(state + ROW_COUNT)
            count = extend_frontier(load_i64(state + ROW_FRONTIER), count, timestamp, txn)
            store_i64(state + ROW_COUNT, count)
    elif op == ERASE_FAMILY:
        if load_i64(state + FAMILY) != family:
            enter_family(state, family)
        count = load_i64(state + FAMILY_COUNT)
        count = extend_frontier(load_i64(state + FAMILY_FRONTIER), count, timestamp, txn)
        store_i64(state + FAMILY_COUNT, count)
    else:
        enter_column(state, family, qualifier, length)
        if op == ERASE_COLUMN:
            store_i64(state + COLUMN_TXN, max(load_i64(state + COLUMN_TXN), txn))
        elif load_i64(state + CELL_TXN) == NEVER or load_i64(state + CELL_TIMESTAMP) != timestamp:
            store_i64(state + CELL_TIMESTAMP, timestamp)
            store_i64(state + CELL_TXN, txn)
