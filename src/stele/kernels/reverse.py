"""Rows in falling order, for reverse scans; the cells of a row stay in cell order.

The runs of a selection are cut where rows begin, and the rows are handed over from the last to the
first. Nothing is copied.
"""

from __future__ import annotations

import numpy as np

from stele.kernels.block import Ints
from stele.kernels.compare import equal_bytes, row_address, row_end, row_length
from stele.kernels.jit import bulk, callee
from stele.kernels.memory import address_of, load_i32
from stele.kernels.runs import (
    RUN_BYTES,
    TOTALS_WORDS,
    Runs,
    add_totals,
    append_run,
    empty_runs,
    store_run,
)
from stele.kernels.selection import Selection
from stele.kernels.sources import SOURCE_WIDTH, SourceMatrix


@callee
def _cut_rows(matrix: int, runs: int, run_count: int, pieces: int) -> int:
    """Cut runs into pieces that lie in one row each; the first piece of a row is marked."""
    row, row_size, count = 0, -1, 0
    for number in range(run_count):
        run = runs + RUN_BYTES * number
        slot, index = load_i32(run), load_i32(run + 4)
        source, stop = matrix + 8 * SOURCE_WIDTH * slot, index + load_i32(run + 8)
        while index < stop:
            own, size = row_address(source, index), row_length(source, index)
            continues = size == row_size and equal_bytes(own, row, size)
            row, row_size = own, size
            end = row_end(source, index, stop)
            count = store_run(pieces, count, slot, index, end - index, 0 if continues else 1)
            index = end
    return count


@bulk
def _reverse_rows(
    matrix: SourceMatrix, runs: Runs, run_count: int, scratch: Runs, out: Runs, totals: Ints
) -> None:
    pieces = address_of(scratch)
    first = stop = _cut_rows(address_of(matrix), address_of(runs), run_count, pieces)
    target, count = address_of(out), 0
    while first > 0:
        first -= 1
        if load_i32(pieces + RUN_BYTES * first + 12) != 0:
            for number in range(first, stop):
                piece = pieces + RUN_BYTES * number
                slot, start, length = load_i32(piece), load_i32(piece + 4), load_i32(piece + 8)
                count = append_run(target, count, slot, start, length)
            stop = first
    add_totals(address_of(matrix), target, count, address_of(totals))


def reverse_rows(selection: Selection) -> Selection:
    """The same cells with the order of their rows turned round."""
    scratch, runs = empty_runs(selection.cells), empty_runs(selection.cells)
    totals = np.zeros(TOTALS_WORDS, np.int64)
    matrix = selection.table.matrix
    _reverse_rows(matrix, selection.runs, selection.run_count, scratch, runs, totals)
    return selection.replace_runs(runs, totals)
