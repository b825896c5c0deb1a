"""Turning the order of rows round."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.merge import merge
from stele.kernels.reverse import reverse_rows
from stele.model.cells import Cell
from tests.oracles import cells as oracle
from tests.oracles import strategies
from tests.oracles.blocks import block_of, cells_of, sources_of
from tests.oracles.reads import reversed_rows


@settings(max_examples=200)
@given(st.data())
def test_rows_fall_and_their_cells_rise(data: st.DataObject) -> None:
    references = data.draw(strategies.references(data.draw(strategies.worlds)))
    selection = merge([source.block for source in sources_of(references)])
    assert cells_of(reverse_rows(selection).gather()) == reversed_rows(oracle.merge(references))
    assert cells_of(reverse_rows(reverse_rows(selection)).gather()) == oracle.merge(references)


def test_one_row_stays_as_it_is() -> None:
    block = block_of([Cell(b"r", "f", b"%d" % number, 1) for number in range(9)])
    assert reverse_rows(merge([block])).run_count == 1
