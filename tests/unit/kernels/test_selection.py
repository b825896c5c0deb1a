"""Selections: chosen cells, copied once or not at all."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.merge import merge
from stele.kernels.selection import empty_block, select_masked
from stele.model.cells import Cell
from tests.oracles import cells as oracle
from tests.oracles import strategies
from tests.oracles.blocks import FORMS, block_of, cells_of, sources_of


@settings(max_examples=200)
@given(st.data())
def test_a_mask_chooses_cells(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    chosen, blocks, masks = [], [], []
    for form in FORMS:
        cells = data.draw(strategies.cell_sets(world, max_size=30))
        size = len(cells)
        mask = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        chosen += [cell for cell, keep in zip(cells, mask, strict=True) if keep]
        blocks.append(form(cells))
        masks.append(np.array(mask, np.bool_))
    selection = select_masked(blocks, masks)
    assert selection.cells == len(chosen)
    assert cells_of(selection.gather()) == chosen


@settings(max_examples=150)
@given(st.data())
def test_a_column_that_outgrows_its_offsets_makes_several_blocks(data: st.DataObject) -> None:
    references = data.draw(strategies.references(data.draw(strategies.worlds)))
    selection = merge([source.block for source in sources_of(references)])
    for limit in (1, 50, 300):
        blocks = selection.gather(column_bytes_max=limit)
        assert cells_of(blocks) == oracle.merge(references)
        assert len(blocks) <= selection.run_count


LETTERS = [Cell(b"%c" % letter, "f", b"q", 1, b"v%d" % letter) for letter in range(97, 123)]


def test_pieces_are_as_large_as_the_limit_allows() -> None:
    halves = [block_of(LETTERS[::2]), block_of(LETTERS[1::2])]
    blocks = merge(halves).gather(column_bytes_max=10)
    # Values are the longest: three bytes up to b"v99", four from b"v100" on.
    assert [block.count for block in blocks] == [3, *[2] * 11, 1]


def test_what_lies_together_is_not_copied_and_stays_alive() -> None:
    block = block_of(LETTERS)
    mask = np.zeros(len(LETTERS), np.bool_)
    mask[3:9] = True
    (part,) = select_masked([block], [mask]).gather()
    addresses = {int(address) for address in block.descriptor[[1, 4, 9]]}
    assert {int(address) for address in part.descriptor[[1, 4, 9]]} == addresses
    del block
    gc.collect()
    assert cells_of([part]) == LETTERS[3:9]


def test_what_is_copied_is_its_own_memory() -> None:
    blocks = [block_of(LETTERS[::2]), block_of(LETTERS[1::2])]
    merged = merge(blocks).block()
    del blocks
    gc.collect()
    assert cells_of([merged]) == LETTERS


def test_nothing_is_an_empty_block() -> None:
    assert empty_block(("f",)).batch.num_rows == 0
    assert select_masked([], []).gather() == []


def test_a_copy_keeps_nothing_alive_but_itself() -> None:
    block = block_of(LETTERS)
    mask = np.zeros(len(LETTERS), np.bool_)
    mask[3:9] = True
    (copied,) = select_masked([block], [mask]).gather(copies=True)
    owner = weakref.ref(block.batch)
    del block
    gc.collect()
    assert owner() is None
    assert cells_of([copied]) == LETTERS[3:9]
