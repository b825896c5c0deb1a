"""Plain cells to blocks and back, with all the forms a batch may come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from stele.kernels.block import Block
from stele.kernels.sources import Source
from stele.model.cells import CELLS, Cell, Op, batch_to_cells, cells_to_batch
from tests.oracles.cells import Reference

BEFORE = Cell(b"before", "zz", b"x", 5, b"not to be seen", Op.PUT, 77)
AFTER = Cell(b"after", "", b"", 6, b"", Op.ERASE_ROW, 78)


def block_of(cells: Sequence[Cell]) -> Block:
    """A block over its own memory."""
    return Block.from_batch(cells_to_batch(cells))


def sliced_block_of(cells: Sequence[Cell]) -> Block:
    """A block that begins and ends within larger Arrow arrays."""
    whole = cells_to_batch([BEFORE, BEFORE, *cells, AFTER])
    return Block.from_batch(whole.slice(2, len(cells)))


def chunked_block_of(cells: Sequence[Cell]) -> Block:
    """A block that was put together from several chunks with dictionaries of their own."""
    half = len(cells) // 2
    parts = [cells_to_batch(cells[:half]), cells_to_batch(cells[half:])]
    table = pa.Table.from_batches(parts, CELLS).unify_dictionaries().combine_chunks()
    batches = table.to_batches() or [cells_to_batch([])]
    return Block.from_batch(batches[0])


FORMS = (block_of, sliced_block_of, chunked_block_of)


def sources_of(references: Iterable[Reference]) -> list[Source]:
    """References as a merge takes them, each with its block in another form."""
    return [
        Source(FORMS[number % len(FORMS)](reference.cells), reference.columns, reference.txn)
        for number, reference in enumerate(references)
    ]


def cells_of(blocks: Iterable[Block]) -> list[Cell]:
    """The cells of blocks one after the other, after a full check of their Arrow form."""
    cells = []
    for block in blocks:
        block.batch.validate(full=True)
        cells += batch_to_cells(block.batch)
    return cells
