"""A selection: cells of some blocks, in order, chosen but not copied yet.

Merging, resolving, filtering and reversing all hand over selections; only
:meth:`Selection.gather` copies cells, once. A selection keeps everything alive that its runs
refer to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.kernels.arena import ARENA_BYTES_MIN, Arena
from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_BYTES,
    VALUE_OFFSETS,
    Block,
    Descriptor,
    Families,
    Ints,
)
from stele.kernels.gather import COLUMN_BYTES_MAX, gather_runs, measure_runs
from stele.kernels.runs import (
    CELL_COUNT,
    QUALIFIER_SIZE,
    ROW_SIZE,
    RUN_COUNT,
    TOTALS_WORDS,
    VALUE_SIZE,
    Runs,
    empty_runs,
)
from stele.kernels.sources import Source, SourceTable

UNBOUNDED = 1 << 62

ALIGNMENT = 64
"""Where columns of a new block begin: what Arrow recommends."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Runs over the rows of a source matrix. ``totals`` says how much they stand for."""

    table: SourceTable
    runs: Runs
    totals: Ints

    @property
    def cells(self) -> int:
        """How many cells are chosen."""
        return int(self.totals[CELL_COUNT // 8])

    @property
    def run_count(self) -> int:
        """How many pieces they come in."""
        return int(self.totals[RUN_COUNT // 8])

    def gather(
        self, column_bytes_max: int = COLUMN_BYTES_MAX, *, copies: bool = False
    ) -> list[Block]:
        """The chosen cells as blocks: one, unless a column would outgrow its 32-bit offsets.

        Cells that lie together in one source are handed over as they are, and keep all of it in
        memory, unless ``copies`` are wanted.
        """
        if self.cells == 0:
            return []
        if self.run_count == 1 and not copies:
            return [self._slice()]
        sizes = self.totals[[ROW_SIZE // 8, QUALIFIER_SIZE // 8, VALUE_SIZE // 8]]
        if sizes.max() <= column_bytes_max:
            return [self._gather(0, self.run_count, self.totals)]
        blocks, first = [], 0
        while first < self.run_count:
            totals = np.zeros(TOTALS_WORDS, np.int64)
            stop = measure_runs(
                self.table.matrix, self.runs, first, self.run_count, column_bytes_max, totals
            )
            blocks.append(self._gather(first, stop, totals))
            first = stop
        return blocks

    def block(self) -> Block:
        """The chosen cells as the one block they are known to fit into."""
        blocks = self.gather()
        assert len(blocks) <= 1, f"{self.cells} cells do not fit into one block"
        return blocks[0] if blocks else empty_block(self.table.families)

    def replace_runs(self, runs: Runs, totals: Ints) -> Selection:
        """Other cells of the same sources."""
        return Selection(self.table, runs, totals)

    def _slice(self) -> Block:
        slot, start, length, _ = self.runs[0].tolist()
        descriptor = self.table.matrix[slot, :DESCRIPTOR_WIDTH].copy()
        descriptor[DESCRIPTOR_WIDTH - 1] = 0  # the source matrix keeps a table here
        block = self.table.blocks[slot]
        whole = Block(descriptor, block.families, (block, self.table.owners[slot]))
        return whole.slice(start, start + length)

    def _gather(self, first: int, stop: int, totals: Ints) -> Block:
        descriptor, owner = allocate_block(totals)
        gather_runs(self.table.matrix, self.runs, first, stop, descriptor)
        return Block(descriptor, self.table.families, owner)


def allocate_block(totals: Ints) -> tuple[Descriptor, object]:
    """One buffer for a block of the size that totals say, and the addresses of its columns."""
    cells = int(totals[CELL_COUNT // 8])
    sizes = (
        (ROW_OFFSETS, 4 * (cells + 1)),
        (ROW_BYTES, int(totals[ROW_SIZE // 8])),
        (FAMILY_CODES, 2 * cells),
        (QUALIFIER_OFFSETS, 4 * (cells + 1)),
        (QUALIFIER_BYTES, int(totals[QUALIFIER_SIZE // 8])),
        (TIMESTAMPS, 8 * cells),
        (TXNS, 8 * cells),
        (OPS, cells),
        (VALUE_OFFSETS, 4 * (cells + 1)),
        (VALUE_BYTES, int(totals[VALUE_SIZE // 8])),
    )
    reached = 0
    descriptor = np.zeros(DESCRIPTOR_WIDTH, np.int64)
    for column, size in sizes:
        descriptor[column] = reached
        reached += -(-size // ALIGNMENT) * ALIGNMENT
    memory = Arena(reached) if reached >= ARENA_BYTES_MIN else pa.allocate_buffer(reached)
    descriptor[:COUNT] += memory.address
    descriptor[COUNT] = cells
    return descriptor, memory


def empty_block(families: Families) -> Block:
    """A block without cells."""
    return Block(np.zeros(DESCRIPTOR_WIDTH, np.int64), families, None)


def select_masked(blocks: Sequence[Block], masks: Sequence[npt.NDArray[np.bool_]]) -> Selection:
    """The cells of blocks, one after the other, for which a mask is set."""
    table, runs = SourceTable((), len(blocks)), []
    for block, mask in zip(blocks, masks, strict=True):
        slot = table.add(Source(block))
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
        starts, stops = edges[::2], edges[1::2]
        part = empty_runs(len(starts))[: len(starts)]
        part[:, 0], part[:, 1], part[:, 2], part[:, 3] = slot, starts, stops - starts, 0
        runs.append(part)
    joined = np.concatenate([*runs, empty_runs(1)])  # never empty, so that it has an address
    totals = np.zeros(TOTALS_WORDS, np.int64)
    measure_runs(table.matrix, joined, 0, len(joined) - 1, UNBOUNDED, totals)
    return Selection(table, joined, totals)
