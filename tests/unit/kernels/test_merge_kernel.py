"""The one kernel behind reads, compactions and merges, called as the merger calls it."""

from __future__ import annotations

import numpy as np
import pytest

from stele.kernels.merge_kernel import COMPACT, KEEP_ALL, READ, advance
from stele.kernels.merge_rows import DONE, PAUSED, workspace
from stele.kernels.resolve import ReadView
from stele.kernels.runs import TOTALS_WORDS, empty_runs
from stele.kernels.sources import Source, SourceTable
from stele.kernels.visibility import visibility_state
from stele.model.cells import Cell
from tests.oracles.blocks import block_of

CELLS = [Cell(b"%d" % (n // 2), "f", b"q", -n, txn=1) for n in range(10)]
"""Five rows of one column with two versions each."""

PARAMETERS = {
    KEEP_ALL: np.zeros(1, np.int64),
    READ: ReadView(versions=1).parameters(),
    COMPACT: np.array([5, 1, 1, 1, 100], np.int64),  # rooted, keep one version
}


@pytest.mark.parametrize(("decision", "kept"), [(KEEP_ALL, 10), (READ, 5), (COMPACT, 5)])
@pytest.mark.parametrize("last", [0, 1])
def test_decisions_and_answers(decision: int, kept: int, last: int) -> None:
    table = SourceTable((), 1)
    table.add(Source(block_of(CELLS)))
    slots, positions = np.zeros(1, np.int64), np.zeros(1, np.int64)
    out, totals = empty_runs(10), np.zeros(TOTALS_WORDS, np.int64)

    def step(cells_max: int) -> int:
        return advance(
            decision,
            PARAMETERS[decision],
            table.matrix,
            slots,
            positions,
            np.array([last]),
            empty_runs(10),
            out,
            workspace(1),
            visibility_state(10),
            totals,
            np.array([2, 1 << 40, cells_max, 1 << 40]),
        )

    assert step(1) == PAUSED
    assert positions.tolist() == [4]  # a round is two rows
    assert step(1 << 40) == (DONE if last else 0)
    assert slots.tolist() == [-1 if last else 0]
    assert totals[1] == kept
    assert int(out[: totals[0], 2].sum()) == kept
