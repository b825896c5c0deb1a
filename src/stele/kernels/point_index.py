"""What point reads search: the references of a tablet, side by side, as one matrix.

Each reference, to a file or to a run in memory, is one row of ``FRAGMENT_WIDTH`` int64:

    0–10  the index of its first rows, see ``stele.kernels.row_index``
    11    BLOCK_MATRIX       address of a descriptor for each block (COUNT 0: not in memory)
    12    USED               address of a byte for each block, set to 1 by whoever reads it
    13    FAMILY_ENTRIES     address of the table from its family codes to the common ones
    14    ROW_ERASURES_REACH address of the table of families its row erasures act on
    15    TXN_COLUMN         address of so many copies of the reference's txn as a block may have
                             cells; 0 when cells carry their own
    16    FENCE_START, 17 its length
    18    FENCE_END, 19 its length (-1: no end)
    20    BLOOMS             address of two int64 for each block: where its bloom filter lies and
                             how many blocks of bits it has (0: not in memory); or 0 for no filters

Blocks come and go in ``BlockTable``: the cache writes a descriptor when a block is loaded and
clears it when the block is dropped, both while it holds the GIL. A kernel that keeps the GIL may
follow the addresses in it; one that gives it up may not, and works on blocks that Python holds.

A run in memory is a fragment of one block that is always there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from stele.kernels.block import Block, Families, Ints, Matrix
from stele.kernels.bloom import BloomFilter
from stele.kernels.row_index import INDEX_WIDTH, RowIndex
from stele.kernels.sources import family_table
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import EVERYTHING, RowRange

BLOCK_MATRIX = INDEX_WIDTH
USED = INDEX_WIDTH + 1
FAMILY_ENTRIES = INDEX_WIDTH + 2
ROW_ERASURES_REACH = INDEX_WIDTH + 3
TXN_COLUMN = INDEX_WIDTH + 4
FENCE_START = INDEX_WIDTH + 5
FENCE_START_LENGTH = INDEX_WIDTH + 6
FENCE_END = INDEX_WIDTH + 7
FENCE_END_LENGTH = INDEX_WIDTH + 8
BLOOMS = INDEX_WIDTH + 9
FRAGMENT_WIDTH = INDEX_WIDTH + 10

NO_END = -1

RESTRICTIONS_MAX = 64
"""How many sets of columns an index is kept ready for: programs ask for the same few."""


class BlockTable(Protocol):
    """The blocks of one fragment, as far as they are in memory."""

    @property
    def blocks(self) -> Sequence[Block | None]:
        """Each block, or None for one that is not in memory."""

    @property
    def matrix(self) -> Matrix:
        """Their descriptors; all zero for one that is not in memory. Never moves."""

    @property
    def sizes(self) -> Sequence[int]:
        """The bytes that each takes in memory."""

    @property
    def used(self) -> npt.NDArray[np.uint8]:
        """Set to 1 for each block that is read."""

    def get(self, group: int) -> Block:
        """A block, loaded if it is not in memory."""


class OneBlock:
    """The table of a run in memory."""

    __slots__ = ("blocks", "matrix", "sizes", "used")

    def __init__(self, block: Block):
        self.blocks = (block,)
        self.sizes = (block.nbytes,)
        self.matrix = block.descriptor.reshape(1, -1)
        self.used = np.zeros(1, np.uint8)

    def get(self, group: int) -> Block:
        return self.blocks[group]


class PointFragment:
    """One reference as point reads see it. Immutable but for the blocks in its table.

    ``families`` is what the codes of its blocks stand for. A reference that carries a txn says how
    many cells its largest block has.
    """

    __slots__ = ("_blooms", "_fence", "_txns", "columns", "families", "index", "numbers", "table")

    def __init__(
        self,
        index: RowIndex,
        table: BlockTable,
        families: Families,
        *,
        columns: ColumnSet = ALL_COLUMNS,
        fence: RowRange = EVERYTHING,
        txn: int | None = None,
        block_cells_max: int = 0,
        blooms: Sequence[BloomFilter | None] = (),
    ):
        self.index = index
        self.table = table
        self.families = families
        self.columns = columns
        self.numbers: Ints = np.zeros(FRAGMENT_WIDTH, np.int64)
        self.numbers[:INDEX_WIDTH] = index.numbers
        self.numbers[BLOCK_MATRIX] = table.matrix.ctypes.data
        self.numbers[USED] = table.used.ctypes.data
        self._fence = self._set_fence(fence)
        self._txns = None
        if txn is not None:
            assert block_cells_max > 0, "how many cells may a block have?"
            self._txns = np.full(block_cells_max, txn, np.int64)
            self.numbers[TXN_COLUMN] = self._txns.ctypes.data
        self._blooms = self._set_blooms(blooms)

    @staticmethod
    def in_memory(block: Block, columns: ColumnSet = ALL_COLUMNS) -> PointFragment:
        """A run in memory."""
        index = RowIndex([block.row(0)], last_row=block.row(block.count - 1))
        return PointFragment(index, OneBlock(block), block.families, columns=columns)

    def _set_fence(self, fence: RowRange) -> object:
        text = np.frombuffer(fence.start + (fence.end or b"") or b"\x00", np.uint8).copy()
        start, end = len(fence.start), NO_END if fence.end is None else len(fence.end)
        self.numbers[FENCE_START] = text.ctypes.data
        self.numbers[FENCE_START_LENGTH] = start
        self.numbers[FENCE_END] = text.ctypes.data + start
        self.numbers[FENCE_END_LENGTH] = end
        return text

    def _set_blooms(self, blooms: Sequence[BloomFilter | None]) -> object:
        if not blooms:
            return None
        assert len(blooms) == self.index.blocks
        places = np.array(
            [(0, 0) if bloom is None else (bloom.address, bloom.blocks) for bloom in blooms],
            np.int64,
        )
        self.numbers[BLOOMS] = places.ctypes.data
        return places, blooms


class PointIndex:
    """The references of a tablet at one moment, for reads of some columns.

    Immutable; make another when the references change.
    """

    __slots__ = ("_restricted", "_tables", "families", "fragments", "listed", "matrix")

    def __init__(self, fragments: Sequence[PointFragment], columns: ColumnSet = ALL_COLUMNS):
        self.fragments = tuple(fragments)
        lists = {fragment.families for fragment in fragments}
        self.families: Families = (
            lists.pop() if len(lists) == 1 else tuple(sorted(set().union(*lists)))
        )
        self.matrix: Matrix = np.zeros((max(len(self.fragments), 1), FRAGMENT_WIDTH), np.int64)
        self._tables = []
        seen = set()
        for number, fragment in enumerate(self.fragments):
            reached = fragment.columns.intersect(columns)
            table = family_table(fragment.families, self.families, reached)
            row = self.matrix[number]
            row[:] = fragment.numbers
            row[FAMILY_ENTRIES] = table.entries_address
            row[ROW_ERASURES_REACH] = table.acts_on_address
            self._tables.append(table)
            seen.add(reached)
        self.listed = len(seen) > 1
        """Whether row erasures of the references reach different families."""
        self._restricted: dict[ColumnSet, PointIndex] = {}

    def restricted(self, columns: ColumnSet) -> PointIndex:
        """The same references for reads of some columns only."""
        if columns.is_everything:
            return self
        index = self._restricted.get(columns)
        if index is None:
            if len(self._restricted) >= RESTRICTIONS_MAX:
                self._restricted.clear()
            index = self._restricted[columns] = PointIndex(self.fragments, columns)
        return index
