"""Cells cut into blocks, as a fragment holds them: streamed, or with some not in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from stele.kernels.block import DESCRIPTOR_WIDTH, Block
from stele.kernels.point_index import PointFragment, PointIndex
from stele.kernels.row_index import RowIndex
from stele.kernels.sources import Source
from stele.model.cells import Cell
from stele.model.ranges import EVERYTHING, RowRange
from tests.oracles.blocks import block_of
from tests.oracles.cells import Reference


class CutBlocks:
    """A block table that remembers what was loaded."""

    def __init__(self, blocks: Sequence[Block]):
        self.stored = list(blocks)
        self.blocks: list[Block | None] = [None] * len(blocks)
        self.matrix = np.zeros((len(blocks), DESCRIPTOR_WIDTH), np.int64)
        self.used = np.zeros(len(blocks), np.uint8)
        self.sizes = [block.nbytes for block in blocks]
        self.loads: list[int] = []

    def load(self, group: int) -> None:
        self.blocks[group] = self.stored[group]
        self.matrix[group] = self.stored[group].descriptor

    def drop(self, group: int) -> None:
        self.blocks[group] = None
        self.matrix[group] = 0

    def get(self, group: int) -> Block:
        if self.blocks[group] is None:
            self.loads.append(group)
            self.load(group)
        return self.stored[group]


def cut(cells: Sequence[Cell], cuts: Sequence[int]) -> list[list[Cell]]:
    """Cells in pieces that begin at the given places; empty pieces are left out."""
    edges = sorted({0, *(at for at in cuts if at < len(cells)), len(cells)})
    return [list(cells[start:stop]) for start, stop in pairwise(edges)]


def continues(pieces: Sequence[Sequence[Cell]]) -> list[bool]:
    """Whether the last row of each piece goes on in the next."""
    return [
        *(before[-1].row == after[0].row for before, after in pairwise(pieces)),
        False,
    ]


def table_of(pieces: Sequence[Sequence[Cell]]) -> CutBlocks:
    """Blocks that all use one list of families."""
    families = tuple(sorted({cell.family for piece in pieces for cell in piece}))
    return CutBlocks([block_of(piece).with_families(families) for piece in pieces])


def index_of(pieces: Sequence[Sequence[Cell]], *, bounded: bool = False) -> RowIndex:
    """The index of some pieces; ``bounded`` if it is to know the last row."""
    flags = np.array(continues(pieces), np.uint8)
    last_row = pieces[-1][-1].row if bounded else None
    return RowIndex([piece[0].row for piece in pieces], flags, last_row)


def fragment_of(
    reference: Reference, cuts: Sequence[int], fence: RowRange = EVERYTHING
) -> tuple[PointFragment, CutBlocks]:
    """A reference as point reads see it, and its blocks, none of which is in memory yet."""
    pieces = cut(reference.cells, cuts)
    table = table_of(pieces)
    fragment = PointFragment(
        index_of(pieces, bounded=len(reference.cells) % 2 == 0),
        table,
        table.stored[0].families,
        columns=reference.columns,
        fence=fence,
        txn=reference.txn,
        block_cells_max=max(map(len, pieces)),
    )
    return fragment, table


def places(cells: Sequence[Cell]) -> st.SearchStrategy[list[int]]:
    """Where to cut: anywhere, within rows too."""
    return st.lists(st.integers(1, max(1, len(cells))), max_size=6)


def stream_of(reference: Reference, cuts: list[int]) -> list[Source]:
    """The blocks of a reference, cut anywhere, some of them empty."""
    if not reference.cells:
        return []
    pieces = cut(reference.cells, cuts)
    flags = continues(pieces)
    sources = [
        Source(block_of(piece), reference.columns, reference.txn, continues=flag)
        for piece, flag in zip(pieces, flags, strict=True)
    ]
    return [*sources, Source(block_of([]), reference.columns)]


def draw_streams(data: st.DataObject, references: list[Reference]) -> list[list[Source]]:
    """Each reference as a stream of blocks."""
    return [stream_of(one, data.draw(places(one.cells))) for one in references]


def draw_index(
    data: st.DataObject, references: list[Reference]
) -> tuple[PointIndex, list[CutBlocks]]:
    """Each reference with cells as a fragment, cut somewhere, with some blocks in memory."""
    fragments, tables = [], []
    for reference in references:
        if not reference.cells:
            continue
        if reference.txn is None and data.draw(st.booleans()):
            memory = PointFragment.in_memory(block_of(reference.cells), reference.columns)
            fragments.append(memory)
            continue
        fragment, table = fragment_of(reference, data.draw(places(reference.cells)))
        for number in range(len(table.stored)):
            if data.draw(st.booleans()):
                table.load(number)
        fragments.append(fragment)
        tables.append(table)
    return PointIndex(fragments), tables
