"""Deciding which merged cells a read sees; see ``stele.kernels.resolve`` for the meaning."""

from __future__ import annotations

from stele.kernels.block import (
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    TIMESTAMPS,
    TXNS,
)
from stele.kernels.jit import callee, inlined
from stele.kernels.memory import load_i8, load_i16, load_i32, load_i64, store_i64
from stele.kernels.runs import RUN_BYTES, append_run
from stele.kernels.sources import ACTS_ON, CLEAN, FAMILY_MAP, SOURCE_WIDTH
from stele.kernels.visibility import (
    PUT,
    PUT_SEEN,
    PUT_TIMESTAMP,
    VERSIONS,
    enter_column,
    erased_in_column,
    note_erasure,
    start_row,
)

# The read as numbers, for kernels.
READ_TXN = 0
READ_VERSIONS = 8
READ_FIRST_TIME = 16
READ_LAST_TIME = 24
READ_LISTS = 32
"""1 when sources differ in their columns. Then row erasures reach only some families, and copies of
a cell are all looked at, because only some of them may be in bounds."""


@inlined
def sees_put(
    state: int, read: int, family: int, qualifier: int, length: int, timestamp: int, txn: int
) -> bool:
    """Whether the next put of a row is visible."""
    enter_column(state, family, qualifier, length)
    if load_i64(state + PUT_SEEN) != 0 and load_i64(state + PUT_TIMESTAMP) == timestamp:
        return False  # a higher txn at the same coordinates came before
    store_i64(state + PUT_SEEN, 1)
    store_i64(state + PUT_TIMESTAMP, timestamp)
    if timestamp < load_i64(read + READ_FIRST_TIME) or timestamp > load_i64(read + READ_LAST_TIME):
        return False
    if erased_in_column(state, timestamp) > txn:
        return False
    versions = load_i64(state + VERSIONS) + 1
    store_i64(state + VERSIONS, versions)
    return versions <= load_i64(read + READ_VERSIONS)


@inlined
def _resolve_run(
    source: int, slot: int, start: int, length: int, state: int, read: int, out: int, count: int
) -> int:
    """Append the visible cells of one run; returns the new number of runs."""
    codes, families = load_i64(source + 8 * FAMILY_CODES), load_i64(source + 8 * FAMILY_MAP)
    offsets = load_i64(source + 8 * QUALIFIER_OFFSETS)
    qualifiers = load_i64(source + 8 * QUALIFIER_BYTES)
    timestamps, txns = load_i64(source + 8 * TIMESTAMPS), load_i64(source + 8 * TXNS)
    ops, read_txn = load_i64(source + 8 * OPS), load_i64(read + READ_TXN)
    listed = load_i64(source + 8 * ACTS_ON) if load_i64(read + READ_LISTS) != 0 else 0
    visible_from = -1
    for index in range(start, start + length):
        visible = False
        txn = load_i64(txns + 8 * index)
        entry = load_i16(families + 2 * load_i16(codes + 2 * index))
        if txn <= read_txn and entry & 1 == 0:
            begin = load_i32(offsets + 4 * index)
            size = load_i32(offsets + 4 * index + 4) - begin
            timestamp = load_i64(timestamps + 8 * index)
            op = load_i8(ops + index)
            if op == PUT:
                visible = sees_put(
                    state, read, entry >> 1, qualifiers + begin, size, timestamp, txn
                )
            else:
                note_erasure(
                    state, op, entry >> 1, qualifiers + begin, size, timestamp, txn, listed
                )
        if visible:
            if visible_from < 0:
                visible_from = index
        elif visible_from >= 0:
            count = append_run(out, count, slot, visible_from, index - visible_from)
            visible_from = -1
    if visible_from >= 0:
        count = append_run(out, count, slot, visible_from, start + length - visible_from)
    return count


@callee
def resolve_runs(
    matrix: int, merged: int, merged_count: int, state: int, read: int, out: int, count: int
) -> int:
    """Resolve whole merged rows; returns the new number of runs in ``out``."""
    for number in range(merged_count):
        run = merged + RUN_BYTES * number
        slot, start, length = load_i32(run), load_i32(run + 4), load_i32(run + 8)
        source = matrix + 8 * SOURCE_WIDTH * slot
        if load_i32(run + 12) != 0:
            alone = number + 1 == merged_count or load_i32(run + RUN_BYTES + 12) != 0
            if alone and load_i64(source + 8 * CLEAN) != 0:
                count = append_run(out, count, slot, start, length)
                continue
            start_row(state)
        count = _resolve_run(source, slot, start, length, state, read, out, count)
    return count
