"""What a read at a txn sees of merged sources: merge and resolution in one pass.

The merge hands over whole rows as runs, a few thousand at a time, still warm in the cache; the
resolution walks over their cells once and keeps what is visible, again as runs. Nothing is copied
until the runs are gathered.

A cell is visible when it is a put that committed at or below the read's txn, has the highest such
txn among the puts at its coordinates, no erasure at or below the read's txn hides it, it lies in
the time range, and fewer than ``versions`` newer visible ones of its column do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stele.kernels.block import (
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    TIMESTAMPS,
    TXNS,
)
from stele.kernels.jit import bulk, callee, inlined
from stele.kernels.memory import (
    address_of,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    store_i64,
)
from stele.kernels.merge_rows import PAUSED, merge_rows
from stele.kernels.merger import (
    BYTES_MAX,
    CELLS_MAX,
    ROUND_BYTES_MAX,
    ROUND_RUNS_MAX,
    Rule,
    merge_whole,
)
from stele.kernels.runs import (
    CELL_COUNT,
    RUN_BYTES,
    RUN_COUNT,
    VALUE_SIZE,
    Runs,
    add_totals,
    append_run,
)
from stele.kernels.selection import Selection
from stele.kernels.sources import (
    ACTS_ON,
    CLEAN,
    FAMILY_MAP,
    SOURCE_WIDTH,
    Source,
    restrict,
    same_columns,
)
from stele.kernels.visibility import (
    CELL_TIMESTAMP,
    CELL_TXN,
    COLUMN_TXN,
    FAMILY,
    FAMILY_COUNT,
    FAMILY_FRONTIER,
    PUT_SEEN,
    PUT_TIMESTAMP,
    ROW_COUNT,
    ROW_FRONTIER,
    VERSIONS,
    enter_column,
    enter_family,
    erased_in_column,
    extend_frontier,
    list_row_erasure,
    start_row,
)
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN, Op
from stele.model.column_set import ALL_COLUMNS, ColumnSet

Ints = npt.NDArray[np.int64]

TXN_MAX = (1 << 63) - 1
VERSIONS_MAX = (1 << 63) - 1

# The read as numbers, for kernels.
READ_TXN = 0
READ_VERSIONS = 8
READ_FIRST_TIME = 16
READ_LAST_TIME = 24
READ_LISTS = 32
"""1 when sources differ in their columns. Then row erasures reach only some families, and copies of
a cell are all looked at, because only some of them may be in bounds."""

PUT = int(Op.PUT)
ERASE_ROW = int(Op.ERASE_ROW)
ERASE_FAMILY = int(Op.ERASE_FAMILY)
ERASE_COLUMN = int(Op.ERASE_COLUMN)


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
        elif (
            load_i64(state + CELL_TXN) == TIMESTAMP_MIN
            or load_i64(state + CELL_TIMESTAMP) != timestamp
        ):
            store_i64(state + CELL_TIMESTAMP, timestamp)
            store_i64(state + CELL_TXN, txn)


@callee
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


@bulk
def advance_read(
    matrix: Ints,
    slots: Ints,
    positions: Ints,
    last: Ints,
    merged: Runs,
    out: Runs,
    work: Ints,
    state: Ints,
    read: Ints,
    totals: Ints,
    limits: Ints,
) -> int:
    """Merge and resolve until a source needs a block, or enough cells are visible."""
    while True:
        answer, runs = merge_rows(
            matrix,
            slots,
            positions,
            last,
            merged,
            work,
            limits[ROUND_RUNS_MAX],
            limits[ROUND_BYTES_MAX],
            read[READ_LISTS // 8] != 0,
        )
        before = totals[RUN_COUNT // 8]
        count = resolve_runs(
            address_of(matrix),
            address_of(merged),
            runs,
            address_of(state),
            address_of(read),
            address_of(out),
            before,
        )
        add_totals(address_of(matrix), address_of(out), before, count, address_of(totals))
        if (
            answer != PAUSED
            or totals[CELL_COUNT // 8] >= limits[CELLS_MAX]
            or totals[VALUE_SIZE // 8] >= limits[BYTES_MAX]
        ):
            return answer


@dataclass(frozen=True, slots=True)
class ReadView:
    """What a read sees: cells up to ``txn``, in ``[time_start, time_end)``, of ``columns``."""

    txn: int = TXN_MAX
    versions: int | None = None
    time_start: int = TIMESTAMP_MIN
    time_end: int | None = None
    columns: ColumnSet = ALL_COLUMNS

    def parameters(self, *, listed: bool) -> Ints:
        """The numbers kernels get. ``listed``: sources differ in their columns."""
        last_time = TIMESTAMP_MAX if self.time_end is None else self.time_end - 1
        versions = VERSIONS_MAX if self.versions is None else self.versions
        return np.array([self.txn, versions, self.time_start, last_time, listed], np.int64)

    def passes(self, source: Source) -> bool:
        """Whether every cell of a source is known to be visible where no other source has any."""
        facts = source.facts
        if facts is None or facts.erasures or facts.versions_max > 1:
            return False
        txn = facts.txn_max if source.txn is None else source.txn
        timeless = self.time_start == TIMESTAMP_MIN and self.time_end is None
        return txn <= self.txn and timeless


def read_rule(view: ReadView, sources: Sequence[Source]) -> Rule:
    """How a merger resolves for a read; ``sources`` stand for the references merged."""
    parameters = view.parameters(listed=not same_columns(sources))
    return Rule(advance_read, parameters, view.passes)


def merge_resolve(sources: Sequence[Source], view: ReadView) -> Selection:
    """What a read sees of sources that are completely in memory."""
    sources = [restrict(source, view.columns) for source in sources if source.block.count]
    return merge_whole(sources, read_rule(view, sources))
