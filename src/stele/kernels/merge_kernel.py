"""The one kernel behind every merge: merge a round of rows, decide on their cells, go on.

Reads, compactions and plain merges differ only in what they decide, so they share a kernel and
with it the time it takes to compile and to load.
"""

from __future__ import annotations

from stele.kernels.block import Ints
from stele.kernels.compact_runs import compact_runs
from stele.kernels.jit import bulk, callee
from stele.kernels.memory import address_of, load_i32
from stele.kernels.merge_rows import PAUSED, merge_rows
from stele.kernels.resolve_runs import READ_LISTS, resolve_runs
from stele.kernels.runs import (
    CELL_COUNT,
    RUN_BYTES,
    RUN_COUNT,
    VALUE_SIZE,
    Runs,
    add_totals,
    append_run,
)
from stele.kernels.sources import SourceMatrix

# What to decide.
KEEP_ALL = 0
READ = 1
COMPACT = 2

# The limits of one call.
ROUND_RUNS_MAX = 0
ROUND_BYTES_MAX = 1
CELLS_MAX = 2
BYTES_MAX = 3


@callee
def _keep_runs(merged: int, merged_count: int, out: int, count: int) -> int:
    for number in range(merged_count):
        run = merged + RUN_BYTES * number
        count = append_run(out, count, load_i32(run), load_i32(run + 4), load_i32(run + 8))
    return count


@bulk
def advance(
    decision: int,
    parameters: Ints,
    matrix: SourceMatrix,
    slots: Ints,
    positions: Ints,
    last: Ints,
    merged: Runs,
    out: Runs,
    work: Ints,
    state: Ints,
    totals: Ints,
    limits: Ints,
) -> int:
    """Merge until a source needs its next block, or enough cells are chosen.

    The sources are described as in :func:`~stele.kernels.merge_rows.merge_rows`, which also says
    what is returned. ``merged`` and ``state`` are scratch; ``out`` and ``totals`` grow.
    """
    copies = decision == READ and parameters[READ_LISTS // 8] != 0
    source, target = address_of(merged), address_of(out)
    sources, numbers, memory = address_of(matrix), address_of(parameters), address_of(state)
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
            copies,
        )
        # A list of its own for each round: what is counted already must not grow any more.
        before = totals[RUN_COUNT // 8]
        fresh = target + RUN_BYTES * before
        if decision == READ:
            count = resolve_runs(sources, source, runs, memory, numbers, fresh, 0)
        elif decision == COMPACT:
            count = compact_runs(sources, source, runs, memory, numbers, fresh, 0)
        else:
            count = _keep_runs(source, runs, fresh, 0)
        add_totals(sources, fresh, count, address_of(totals))
        enough = totals[CELL_COUNT // 8] >= limits[CELLS_MAX]
        if answer != PAUSED or enough or totals[VALUE_SIZE // 8] >= limits[BYTES_MAX]:
            return answer
