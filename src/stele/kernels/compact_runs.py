"""Deciding which merged cells a compaction keeps; see ``stele.kernels.compact`` for the rules."""

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
from stele.kernels.sources import CLEAN, FAMILY_MAP, SOURCE_WIDTH
from stele.kernels.visibility import (
    COLUMN_TXN,
    ERASE_COLUMN,
    ERASE_FAMILY,
    FAMILY,
    PUT,
    PUT_SEEN,
    PUT_TIMESTAMP,
    VERSIONS,
    enter_column,
    enter_family,
    erased_above,
    erased_in_column,
    note_erasure,
    start_row,
)

# The compaction as numbers, for kernels; clauses follow as pairs (history, cutoff).
HORIZON = 0
ROOTED = 8
CLAUSE_COUNT = 16
CLAUSES = 24
CLAUSE_BYTES = 16


@callee
def _is_purged(plan: int, version: int, timestamp: int) -> bool:
    clause = plan + CLAUSES
    for _ in range(load_i64(plan + CLAUSE_COUNT)):
        if version >= load_i64(clause) and timestamp < load_i64(clause + 8):
            return True
        clause += CLAUSE_BYTES
    return False


@inlined
def _keeps_put(
    state: int, plan: int, family: int, qualifier: int, length: int, timestamp: int, txn: int
) -> bool:
    """Whether the next put at or below the horizon stays."""
    enter_column(state, family, qualifier, length)
    if load_i64(state + PUT_SEEN) != 0 and load_i64(state + PUT_TIMESTAMP) == timestamp:
        return False
    store_i64(state + PUT_SEEN, 1)
    store_i64(state + PUT_TIMESTAMP, timestamp)
    if erased_in_column(state, timestamp) > txn:
        return False
    version = load_i64(state + VERSIONS)
    store_i64(state + VERSIONS, version + 1)
    return load_i64(plan + ROOTED) == 0 or not _is_purged(plan, version, timestamp)


@callee
def _keeps_erasure(
    state: int,
    plan: int,
    op: int,
    family: int,
    qualifier: int,
    length: int,
    timestamp: int,
    txn: int,
) -> bool:
    """Whether the next erasure at or below the horizon stays; it takes effect either way."""
    if op <= ERASE_FAMILY:
        if op == ERASE_FAMILY and load_i64(state + FAMILY) != family:
            enter_family(state, family)
        covered = erased_above(state, timestamp)
    else:
        enter_column(state, family, qualifier, length)
        if op == ERASE_COLUMN:
            covered = max(erased_above(state, timestamp), load_i64(state + COLUMN_TXN))
        else:
            covered = erased_in_column(state, timestamp)
    note_erasure(state, op, family, qualifier, length, timestamp, txn, 0)
    return covered < txn and load_i64(plan + ROOTED) == 0


@inlined
def _compact_run(
    source: int, slot: int, start: int, length: int, state: int, plan: int, out: int, count: int
) -> int:
    """Append the cells of one run that stay; returns the new number of runs."""
    codes, families = load_i64(source + 8 * FAMILY_CODES), load_i64(source + 8 * FAMILY_MAP)
    offsets = load_i64(source + 8 * QUALIFIER_OFFSETS)
    qualifiers = load_i64(source + 8 * QUALIFIER_BYTES)
    timestamps, txns = load_i64(source + 8 * TIMESTAMPS), load_i64(source + 8 * TXNS)
    ops, horizon = load_i64(source + 8 * OPS), load_i64(plan + HORIZON)
    kept_from = -1
    for index in range(start, start + length):
        entry = load_i16(families + 2 * load_i16(codes + 2 * index))
        txn = load_i64(txns + 8 * index)
        keeps = entry & 1 == 0
        if keeps and txn <= horizon:
            begin = load_i32(offsets + 4 * index)
            size = load_i32(offsets + 4 * index + 4) - begin
            timestamp = load_i64(timestamps + 8 * index)
            op = load_i8(ops + index)
            name = qualifiers + begin
            if op == PUT:
                keeps = _keeps_put(state, plan, entry >> 1, name, size, timestamp, txn)
            else:
                keeps = _keeps_erasure(state, plan, op, entry >> 1, name, size, timestamp, txn)
        if keeps:
            if kept_from < 0:
                kept_from = index
        elif kept_from >= 0:
            count = append_run(out, count, slot, kept_from, index - kept_from)
            kept_from = -1
    if kept_from >= 0:
        count = append_run(out, count, slot, kept_from, start + length - kept_from)
    return count


@callee
def compact_runs(
    matrix: int, merged: int, merged_count: int, state: int, plan: int, out: int, count: int
) -> int:
    """Compact whole merged rows; returns the new number of runs in ``out``."""
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
        count = _compact_run(source, slot, start, length, state, plan, out, count)
    return count
