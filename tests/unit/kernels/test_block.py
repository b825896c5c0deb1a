"""Blocks: Arrow in, Arrow out, nothing copied on the way."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
    TXNS,
    Block,
    describe,
    matrix,
    unify_families,
)
from stele.model.cells import CELLS, MUTATIONS, Cell, batch_to_cells, cells_to_batch
from tests.oracles import strategies
from tests.oracles.blocks import FORMS, block_of, cells_of


@settings(max_examples=200)
@given(st.data())
def test_cells_survive_the_way_through_a_block(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(cells))] * 2)))
    for form in FORMS:
        block = form(cells)
        assert block.count == len(cells)
        assert cells_of([block]) == cells
        assert [block.row(index) for index in range(block.count)] == [cell.row for cell in cells]
        part = block.slice(start, stop)
        assert cells_of([part]) == cells[start:stop]
        assert cells_of([part.slice(0, part.count)]) == cells[start:stop]
        assert part.nbytes == data_bytes(cells[start:stop])


def data_bytes(cells: list[Cell]) -> int:
    """Three offsets, a code, two numbers and an op for each cell, and its bytes."""
    return sum(31 + len(cell.row) + len(cell.qualifier) + len(cell.value) for cell in cells)


def test_a_block_keeps_its_memory_alive() -> None:
    cells = [Cell(b"r%d" % number, "f", b"q", 1, b"v" * 1_000) for number in range(100)]
    part = block_of(cells).slice(10, 20)
    gc.collect()
    batch = part.batch
    del part
    gc.collect()
    assert batch_to_cells(batch) == cells[10:20]


def test_codes_follow_the_order_of_names_whatever_the_dictionary() -> None:
    cells = [Cell(b"r", family, b"q", 1) for family in ("a", "b", "c")]
    batch = cells_to_batch(cells)
    names = pa.array(["c", "unused", "a", "b"], pa.utf8())
    shuffled = pa.DictionaryArray.from_arrays(pa.array([2, 3, 0], pa.int16()), names)
    block = Block.from_batch(batch.set_column(1, CELLS.field(1), shuffled))
    assert block.families == ("a", "b", "c", "unused")
    assert cells_of([block]) == cells


def test_one_list_of_families_for_all() -> None:
    blocks = [block_of([Cell(b"r", family, b"q", 1)]) for family in ("b", "a", "c")]
    families, unified = unify_families(blocks)
    assert families == ("a", "b", "c")
    assert all(block.families == families for block in unified)
    assert cells_of(unified) == cells_of(blocks)
    assert unify_families([]) == ((), [])
    assert unify_families(unified)[1][0] is unified[0]
    assert cells_of([block_of([]).with_families(("x",))]) == []


def test_a_matrix_has_a_row_for_each_block() -> None:
    blocks = [block_of([Cell(b"r", "f", b"q", 1)] * count) for count in (1, 2)]
    assert matrix(blocks).shape == (2, DESCRIPTOR_WIDTH)
    assert matrix(blocks)[:, COUNT].tolist() == [1, 2]
    assert matrix([]).shape == (0, DESCRIPTOR_WIDTH)


def test_mutations_have_no_txns() -> None:
    cells = [Cell(b"r", "f", b"q", 1)]
    descriptor, families, _ = describe(cells_to_batch(cells).select(MUTATIONS.names))
    assert (descriptor[TXNS], descriptor[COUNT], families) == (0, 1, ("f",))


def test_only_cells_make_a_block() -> None:
    with pytest.raises(AssertionError, match="not cells"):
        Block.from_batch(pa.record_batch({"row": pa.array([b"r"])}))
