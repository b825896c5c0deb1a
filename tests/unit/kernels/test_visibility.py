"""The state of a pass over a row: frontiers of erasures against trying all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import Ints
from stele.kernels.jit import quick
from stele.kernels.memory import address_of, load_i64
from stele.kernels.visibility import (
    NEVER,
    ROW_COUNT,
    ROW_FRONTIER,
    enter_column,
    erased_in_column,
    extend_frontier,
    note_erasure,
    reach,
    start_row,
    visibility_state,
)
from stele.model.cells import Op


@quick
def build(state_array: Ints, stamps: Ints, txns: Ints) -> int:
    frontier, count = load_i64(address_of(state_array) + ROW_FRONTIER), 0
    for number in range(len(stamps)):
        count = extend_frontier(frontier, count, stamps[number], txns[number])
    return count


@quick
def reached(state_array: Ints, count: int, timestamp: int) -> int:
    return reach(load_i64(address_of(state_array) + ROW_FRONTIER), count, timestamp)


pairs = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), max_size=20)


@settings(max_examples=300)
@given(pairs)
def test_a_frontier_knows_the_highest_txn_that_reaches_a_timestamp(
    erasures: list[tuple[int, int]],
) -> None:
    erasures.sort(key=lambda pair: (-pair[0], -pair[1]))
    state = visibility_state(len(erasures))
    stamps, txns = (_numbers(column, erasures) for column in (0, 1))
    count = build(state, stamps, txns)
    for timestamp in range(-6, 7):
        expected = max((txn for stamp, txn in erasures if stamp >= timestamp), default=NEVER)
        assert reached(state, count, timestamp) == expected


def _numbers(column: int, rows: list[tuple[int, int]]) -> Ints:
    return np.array([row[column] for row in rows], np.int64)


def test_erasures_in_the_order_of_time_leave_one() -> None:
    """A row erased again and again costs no more than one erased once."""
    rows = [(1_000 - number, 1_000 - number) for number in range(1_000)]
    assert build(visibility_state(1_000), _numbers(0, rows), _numbers(1, rows)) == 1


@quick
def erase(state_array: Ints, op: int, family: int, timestamp: int, txn: int) -> None:
    note_erasure(address_of(state_array), op, family, 0, 0, timestamp, txn, 0)


@quick
def begin(state_array: Ints) -> None:
    start_row(address_of(state_array))


@quick
def erased(state_array: Ints, family: int, timestamp: int) -> int:
    enter_column(address_of(state_array), family, 0, 0)
    return erased_in_column(address_of(state_array), timestamp)


def test_each_kind_of_erasure_reaches_as_far_as_it_says() -> None:
    state = visibility_state(10)
    begin(state)
    erase(state, Op.ERASE_ROW, 0, 3, 10)
    erase(state, Op.ERASE_FAMILY, 1, 5, 7)
    erase(state, Op.ERASE_COLUMN, 1, 2, 20)
    erase(state, Op.ERASE_CELL, 1, 1, 30)
    assert [erased(state, 1, stamp) for stamp in (6, 5, 3)] == [20, 20, 20]
    assert [erased(state, 1, stamp) for stamp in (2, 1, 0)] == [20, 30, 20]
    assert [erased(state, 2, stamp) for stamp in (5, 3)] == [NEVER, 10]
    begin(state)
    assert erased(state, 1, 1) == NEVER
    assert state[ROW_COUNT // 8] == 0
