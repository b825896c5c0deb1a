"""The order check and the beginnings of rows."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.order import IN_ORDER, block_disorder, first_disorder, row_starts
from stele.model import cell_order
from stele.model.cells import MUTATIONS, Cell, cells_to_batch
from tests.oracles import strategies
from tests.oracles.blocks import FORMS, block_of, sliced_block_of


def plain_disorder(cells: list[Cell]) -> int:
    keys = [cell.key() for cell in cells]
    wrong = [index for index in range(1, len(keys)) if keys[index - 1] >= keys[index]]
    return wrong[0] if wrong else IN_ORDER


@settings(max_examples=300)
@given(st.data())
def test_the_first_cell_out_of_order_is_found(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    cells = data.draw(strategies.cell_sets(world))
    assert block_disorder(sliced_block_of(cells)) == IN_ORDER
    if len(cells) > 1:
        at, other = (data.draw(st.integers(0, len(cells) - 1)) for _ in range(2))
        spoiled = [*cells]
        spoiled[at] = cells[other]
        for form in FORMS:
            assert block_disorder(form(spoiled)) == plain_disorder(spoiled)


@settings(max_examples=100)
@given(st.data())
def test_mutations_without_txns_are_judged_like_the_plain_check(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    cells = data.draw(strategies.cell_sets(world))
    numbers = data.draw(st.lists(st.integers(0, world.size - 1), max_size=10))
    for some in (cells, list(map(world.cell, numbers))):
        batch = cells_to_batch(some).select(MUTATIONS.names)
        assert first_disorder(batch) == cell_order.first_disorder(batch)
        assert first_disorder(cells_to_batch(some)) == plain_disorder(some)


@pytest.mark.parametrize("count", [1_023, 1_024, 1_025, 5_000])
def test_small_and_large_batches_take_different_ways_to_the_same_answer(count: int) -> None:
    cells = [Cell(b"%06d" % number, "f", b"q", 1) for number in range(count)]
    assert block_disorder(block_of(cells)) == IN_ORDER
    assert block_disorder(block_of([*cells[:-1], cells[0]])) == count - 1


@settings(max_examples=200)
@given(st.data())
def test_rows_begin_where_the_key_changes(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    sizes = [len(list(row)) for _, row in groupby(cells, key=lambda cell: cell.row)]
    expected = [sum(sizes[:number]) for number in range(len(sizes))]
    for form in FORMS:
        assert row_starts(form(cells)).tolist() == expected
