"""The plain merge: every cell of every source once, in cell order. What flushes and tiers do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stele.kernels.block import Block
from stele.kernels.jit import bulk, callee
from stele.kernels.memory import address_of, load_i32
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
    Ints,
    Runs,
    add_totals,
    append_run,
)
from stele.kernels.selection import Selection
from stele.kernels.sources import Source


@callee
def _keep_runs(merged: int, merged_count: int, out: int, count: int) -> int:
    for number in range(merged_count):
        run = merged + RUN_BYTES * number
        count = append_run(out, count, load_i32(run), load_i32(run + 4), load_i32(run + 8))
    return count


@bulk
def advance_merge(
    matrix: Ints,
    slots: Ints,
    positions: Ints,
    last: Ints,
    merged: Runs,
    out: Runs,
    work: Ints,
    state: Ints,  # noqa: ARG001 - all rules take the same arguments
    parameters: Ints,  # noqa: ARG001
    totals: Ints,
    limits: Ints,
) -> int:
    """Merge until a source needs a block, or enough is merged."""
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
            False,
        )
        before = totals[RUN_COUNT // 8]
        count = _keep_runs(address_of(merged), runs, address_of(out), before)
        add_totals(address_of(matrix), address_of(out), before, count, address_of(totals))
        if (
            answer != PAUSED
            or totals[CELL_COUNT // 8] >= limits[CELLS_MAX]
            or totals[VALUE_SIZE // 8] >= limits[BYTES_MAX]
        ):
            return answer


MERGE_RULE = Rule(advance_merge, np.zeros(1, np.int64), lambda _: True)
"""Everything stays. Sources must not be restricted to columns: a merge looks at no family."""


def merge(blocks: Sequence[Block]) -> Selection:
    """All cells of sorted blocks, each once, in cell order."""
    return merge_whole([Source(block) for block in blocks if block.count], MERGE_RULE)
