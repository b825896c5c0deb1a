"""Copying runs: every length that takes another way, and codes of other families."""

from __future__ import annotations

import numpy as np
import pytest

from stele.kernels.block import Block
from stele.kernels.gather import gather_runs, measure_runs
from stele.kernels.runs import TOTALS_WORDS
from stele.kernels.selection import Selection, allocate_block
from stele.kernels.sources import Source, SourceTable
from stele.model.cells import Cell, Op
from tests.oracles.blocks import cells_of, sliced_block_of


def selected(sources: list[list[Cell]], runs: list[tuple[int, int, int]]) -> Selection:
    table = SourceTable((), len(sources))
    for cells in sources:
        table.add(Source(sliced_block_of(cells)))
    array = np.array([(*run, 0) for run in runs], np.int32).reshape(-1, 4)
    totals = np.zeros(TOTALS_WORDS, np.int64)
    measure_runs(table.matrix, array, 0, len(array), 1 << 40, totals)
    return Selection(table, array, totals)


def chosen(sources: list[list[Cell]], runs: list[tuple[int, int, int]]) -> list[Cell]:
    return [cell for slot, start, length in runs for cell in sources[slot][start : start + length]]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 63, 64, 127, 128, 129, 1_000])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 100])
def test_every_length_is_copied_whole(size: int, length: int) -> None:
    sources = [
        [
            Cell(b"%d%03d" % (slot, n), "f", bytes([n]) * (size % 50), -n, bytes([n]) * size, txn=n)
            for n in range(120)
        ]
        for slot in range(2)
    ]
    runs = [(0, 3, length), (1, 0, length), (0, 119, 1), (1, 20, length)]
    assert cells_of(selected(sources, runs).gather()) == chosen(sources, runs)


def test_families_get_their_common_codes() -> None:
    sources = [
        [Cell(b"r%d" % n, family, b"q", 1, op=Op.PUT) for n in range(40)]
        for family in ("b", "a", "c")
    ]
    runs = [(0, 0, 30), (1, 0, 30), (2, 5, 2), (0, 30, 10)]
    (block,) = selected(sources, runs).gather()
    assert {"a", "b", "c"} <= set(block.families)
    assert cells_of([block]) == chosen(sources, runs)


def test_measuring_stops_before_a_column_is_too_long() -> None:
    sources = [[Cell(b"r", "f", b"q", number, b"v" * 10) for number in range(10)]]
    selection = selected(sources, [(0, number, 1) for number in range(10)])
    totals = np.zeros(TOTALS_WORDS, np.int64)
    matrix = selection.table.matrix
    assert measure_runs(matrix, selection.runs, 0, 10, 35, totals) == 3
    assert totals.tolist() == [3, 3, 3, 3, 30]
    assert measure_runs(matrix, selection.runs, 3, 10, 5, totals) == 4
    assert measure_runs(matrix, selection.runs, 9, 10, 5, totals) == 10


def test_only_the_runs_asked_for_are_copied() -> None:
    sources = [[Cell(b"%d" % number, "f", b"q", 1, b"v") for number in range(10)]]
    selection = selected(sources, [(0, number, 1) for number in range(10)])
    totals = np.array([3, 3, 3, 3, 3], np.int64)
    descriptor, owner = allocate_block(totals)
    gather_runs(selection.table.matrix, selection.runs, 4, 7, descriptor)
    block = Block(descriptor, selection.table.families, owner)
    assert cells_of([block]) == sources[0][4:7]
