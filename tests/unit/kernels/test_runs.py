"""Lists of runs and what they stand for."""

from __future__ import annotations

import numpy as np

from stele.kernels.block import Ints
from stele.kernels.jit import bulk
from stele.kernels.memory import address_of
from stele.kernels.runs import TOTALS_WORDS, Runs, add_totals, append_run, empty_runs, store_run
from stele.kernels.sources import Source, SourceMatrix, SourceTable
from stele.model.cells import Cell
from tests.oracles.blocks import sliced_block_of


@bulk
def append_all(runs: Runs, out: Runs) -> int:
    count = 0
    for number in range(len(runs)):
        slot, start, length = runs[number, 0], runs[number, 1], runs[number, 2]
        count = append_run(address_of(out), count, slot, start, length)
    return store_run(address_of(out), count, 9, 8, 7, 1)


@bulk
def total(matrix: SourceMatrix, runs: Runs, totals: Ints) -> None:
    add_totals(address_of(matrix), address_of(runs), len(runs), address_of(totals))


def test_runs_that_continue_each_other_become_one() -> None:
    runs = np.array(
        [[0, 0, 2, 0], [0, 2, 1, 0], [0, 4, 1, 0], [1, 5, 1, 0], [1, 6, 3, 0], [0, 5, 1, 0]],
        np.int32,
    )
    out = empty_runs(10)
    count = append_all(runs, out)
    assert out[:count].tolist() == [
        [0, 0, 3, 0],
        [0, 4, 1, 0],
        [1, 5, 4, 0],
        [0, 5, 1, 0],
        [9, 8, 7, 1],
    ]


def test_totals_add_up_cells_and_bytes() -> None:
    cells = [Cell(b"r" * number, "f", b"qq", 1, b"v" * 10 * number) for number in range(1, 6)]
    table = SourceTable((), 1)
    table.add(Source(sliced_block_of(cells)))
    totals = np.zeros(TOTALS_WORDS, np.int64)
    for _ in range(2):
        total(table.matrix, np.array([[0, 1, 2, 0], [0, 4, 1, 0]], np.int32), totals)
    assert totals.tolist() == [4, 6, 2 * (2 + 3 + 5), 2 * 6, 20 * (2 + 3 + 5)]


def test_there_is_always_room_for_one_run() -> None:
    assert empty_runs(0).shape == (1, 4)
