"""Runs: cells chosen from sources, in order, without being copied.

A run is four int32: slot (row of the source matrix), first cell, number of cells, and a mark that
the merge sets in the first run of a row. Runs that continue each other become one, so clean data
passes through a merge as a few long runs, and the copy at the end is a few long ``memcpy``.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

from stele.kernels.block import QUALIFIER_OFFSETS, ROW_OFFSETS, VALUE_OFFSETS
from stele.kernels.jit import callee, inlined
from stele.kernels.memory import load_i32, load_i64, store_i32, store_i64
from stele.kernels.sources import SOURCE_WIDTH

Runs = Annotated[npt.NDArray[np.int32], 2]

RUN_WIDTH = 4
RUN_BYTES = 16

# What is known of a list of runs: how many, and how much they stand for. int64 each.
RUN_COUNT = 0
CELL_COUNT = 8
ROW_SIZE = 16
QUALIFIER_SIZE = 24
VALUE_SIZE = 32
TOTALS_WORDS = 5


def empty_runs(capacity: int) -> Runs:
    """Room for so many runs."""
    return np.empty((max(capacity, 1), RUN_WIDTH), np.int32)


@inlined
def store_run(runs: int, count: int, slot: int, start: int, length: int, first: int) -> int:
    """Write a run after ``count`` others; returns their new number."""
    run = runs + RUN_BYTES * count
    store_i32(run, slot)
    store_i32(run + 4, start)
    store_i32(run + 8, length)
    store_i32(run + 12, first)
    return count + 1


@inlined
def append_run(runs: int, count: int, slot: int, start: int, length: int) -> int:
    """Like :func:`store_run`, but lengthens the last run where the new one continues it."""
    if count > 0:
        run = runs + RUN_BYTES * count - RUN_BYTES
        if load_i32(run) == slot:
            before = load_i32(run + 8)
            if load_i32(run + 4) + before == start:
                store_i32(run + 8, before + length)
                return count
    return store_run(runs, count, slot, start, length, 0)


@inlined
def span(source: int, offsets_column: int, start: int, length: int) -> int:
    """Bytes of some cells in a column of variable length."""
    offsets = load_i64(source + 8 * offsets_column) + 4 * start
    return load_i32(offsets + 4 * length) - load_i32(offsets)


@callee
def add_totals(matrix: int, runs: int, count: int, totals: int) -> None:
    """Add some runs to the totals."""
    cells, rows, qualifiers, values = 0, 0, 0, 0
    for number in range(count):
        run = runs + RUN_BYTES * number
        source = matrix + 8 * SOURCE_WIDTH * load_i32(run)
        start, length = load_i32(run + 4), load_i32(run + 8)
        cells += length
        rows += span(source, ROW_OFFSETS, start, length)
        qualifiers += span(source, QUALIFIER_OFFSETS, start, length)
        values += span(source, VALUE_OFFSETS, start, length)
    store_i64(totals + RUN_COUNT, load_i64(totals + RUN_COUNT) + count)
    store_i64(totals + CELL_COUNT, load_i64(totals + CELL_COUNT) + cells)
    store_i64(totals + ROW_SIZE, load_i64(totals + ROW_SIZE) + rows)
    store_i64(totals + QUALIFIER_SIZE, load_i64(totals + QUALIFIER_SIZE) + qualifiers)
    store_i64(totals + VALUE_SIZE, load_i64(totals + VALUE_SIZE) + values)
