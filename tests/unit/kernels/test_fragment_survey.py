"""The survey of a fragment's cells, and the search for row borders, against plain Python."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import unify_families
from stele.kernels.fragment_survey import (
    FIXED_BYTES,
    OP_COUNTS,
    PUT_TIMESTAMP_MAX,
    PUT_TIMESTAMP_MIN,
    ROWS,
    TXN_MAX,
    TXN_MIN,
    VERSIONS_MAX,
    cells_within,
    first_row_start,
    last_row_start,
    new_state,
    raw_bytes,
    survey,
)
from stele.model.cells import Cell, Op
from tests.unit.storage.fragment_cases import SORTED_CELLS, any_cell, to_blocks


def run(cells: list[Cell], size: int) -> tuple[int, list[int], list[int]]:
    """Survey cells in blocks of a size: the first wrong cell, the state, cells of each family."""
    _, blocks = unify_families(to_blocks(cells, size))
    state = new_state()
    counts = np.zeros(len(blocks[0].families), np.int64)
    before, done = blocks[0], 0
    for block in blocks:
        last = before.count - 1 if done else -1
        wrong = survey(before.descriptor, last, block.descriptor, state, counts)
        if wrong >= 0:
            return done + wrong, state.tolist(), counts.tolist()
        before, done = block, done + block.count
    return -1, state.tolist(), counts.tolist()


@settings(max_examples=150)
@given(SORTED_CELLS, st.integers(1, 50))
def test_the_survey_counts_what_is_there(cells: list[Cell], size: int) -> None:
    wrong, state, counts = run(cells, size)
    assert wrong == -1
    assert state[ROWS] == len({cell.row for cell in cells})
    assert state[TXN_MIN] == min(cell.txn for cell in cells)
    assert state[TXN_MAX] == max(cell.txn for cell in cells)
    puts = [cell for cell in cells if cell.op is Op.PUT]
    if puts:
        assert state[PUT_TIMESTAMP_MIN] == min(cell.timestamp for cell in puts)
        assert state[PUT_TIMESTAMP_MAX] == max(cell.timestamp for cell in puts)
    for op in Op:
        assert state[OP_COUNTS + op] == sum(cell.op is op for cell in cells)
    columns = groupby(puts, key=lambda cell: (cell.row, cell.family, cell.qualifier))
    assert state[VERSIONS_MAX] == max((len(list(group)) for _, group in columns), default=0)
    families = sorted({cell.family for cell in cells})
    assert counts == [sum(cell.family == name for cell in cells) for name in families]


@settings(max_examples=150)
@given(st.lists(any_cell(), min_size=2, max_size=12), st.integers(1, 5))
def test_the_first_cell_out_of_order_is_named(cells: list[Cell], size: int) -> None:
    keys = [cell.key() for cell in cells]
    expected = next((at + 1 for at, (a, b) in enumerate(pairwise(keys)) if a >= b), -1)
    assert run(cells, size)[0] == expected


@settings(max_examples=100)
@given(SORTED_CELLS, st.data())
def test_row_starts(cells: list[Cell], data: st.DataObject) -> None:
    (block,) = to_blocks(cells)
    starts = [at for at, (a, b) in enumerate(pairwise(cells), 1) if a.row != b.row]
    low = data.draw(st.integers(1, len(cells)))
    high = data.draw(st.integers(0, len(cells) - 1))
    within = [at for at in starts if low <= at <= high]
    assert last_row_start(block.descriptor, low, high) == (within[-1] if within else -1)
    assert first_row_start(block.descriptor, low, high) == (within[0] if within else -1)


def size_of(cell: Cell) -> int:
    return FIXED_BYTES + len(cell.row) + len(cell.qualifier) + len(cell.value)


@settings(max_examples=100)
@given(SORTED_CELLS, st.integers(0, 2_000), st.data())
def test_how_many_cells_fit(cells: list[Cell], budget: int, data: st.DataObject) -> None:
    (whole,) = to_blocks(cells)
    start = data.draw(st.integers(0, len(cells) - 1))
    block, rest = whole.slice(start, len(cells)), cells[start:]
    sizes = np.cumsum([size_of(cell) for cell in rest])
    assert cells_within(block.descriptor, budget) == int((sizes <= budget).sum())
    assert raw_bytes(block.descriptor) == sizes[-1]


@pytest.mark.parametrize("count", [1, 8, 9])
def test_long_keys_that_differ_in_their_last_byte(count: int) -> None:
    prefix = b"p" * 40
    cells = [Cell(prefix + bytes([at]), "f", b"", 0) for at in range(count)]
    assert run(cells, 3)[0] == -1
    assert run(cells[::-1], 3)[0] == (1 if count > 1 else -1)
