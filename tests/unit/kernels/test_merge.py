"""The plain merge against sorting."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.merge import merge
from stele.model.cells import Cell
from tests.oracles import cells as oracle
from tests.oracles import strategies
from tests.oracles.blocks import block_of, cells_of, sources_of


@settings(max_examples=300)
@given(st.data())
def test_merging_is_sorting_and_dropping_copies(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    blocks = [source.block for source in sources_of(references)]
    assert cells_of(merge(blocks).gather()) == oracle.merge(references)


def test_nothing_merges_to_nothing() -> None:
    assert merge([]).gather() == []
    assert merge([block_of([]), block_of([])]).gather() == []
    assert merge([]).block().count == 0


def test_one_block_is_handed_over_without_a_copy() -> None:
    block = block_of([Cell(b"a", "f", b"q", 1, b"x"), Cell(b"b", "f", b"q", 1, b"y")])
    (merged,) = merge([block]).gather()
    assert merged.descriptor.tolist() == block.descriptor.tolist()
    assert cells_of([merged]) == cells_of([block])
