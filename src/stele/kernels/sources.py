"""Sources of a merge: blocks, each with the columns it may speak for, as one matrix of numbers.

A source is a block seen through a reference. The reference acts on exactly its column set, and
may carry the txn of all its cells (an imported file stores none). Merging needs all sources in one
space of family codes; instead of rewriting the codes of a block, each source brings a table from
its own codes to the common ones, which also says which families are out of bounds:

    entry = common code * 2 + (1 when the source may not speak for the family)

Row erasures carry no family. They reach every family of their source's column set and no other,
so each source also has a table of the common codes that its row erasures act on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stele.kernels.block import DESCRIPTOR_WIDTH, TXNS, Block, Families, Matrix
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.column_set import ALL_COLUMNS, ColumnSet

# Columns of the source matrix after those of a block's descriptor.
FAMILY_MAP = 11
"""Address of an int16 entry for each family code of the block."""
ACTS_ON = 12
"""Address of a byte for each common code: whether row erasures of the source reach it."""
CLEAN = 13
"""1 when every cell of a row that only this source has is known to be visible."""
SAME_CODES = 14
"""1 when the block's codes are the common ones."""
SOURCE_WIDTH = 16

SourceMatrix = Matrix

_TABLES_KEPT = 1_024
"""Families of a table change rarely: the same few tables serve all merges of a tablet."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of all cells of a block or fragment without looking at them."""

    txn_max: int
    erasures: bool
    versions_max: int
    """The most cells any one column of a row has."""


@dataclass(frozen=True, slots=True)
class Source:
    """A block as a reference shows it. ``facts`` are optional and only save work.

    In a stream of blocks ``continues`` says that the last row goes on in the next block.
    """

    block: Block
    columns: ColumnSet = ALL_COLUMNS
    txn: int | None = None
    facts: Facts | None = None
    continues: bool = False


@dataclass(frozen=True, slots=True)
class FamilyTable:
    """Two tables over family codes, see the module docstring, and where they lie."""

    entries: npt.NDArray[np.int16]
    acts_on: npt.NDArray[np.uint8]
    entries_address: int
    acts_on_address: int
    same_codes: bool
    whole: bool
    """Whether no family of the block is out of bounds."""


@lru_cache(maxsize=_TABLES_KEPT)
def family_table(own: Families, common: Families, columns: ColumnSet) -> FamilyTable:
    """The tables of a block with families ``own`` among sources whose families are ``common``."""
    code_of = {name: code for code, name in enumerate(common)}
    outside = [name != ROW_ERASURE_FAMILY and name not in columns for name in own]
    entries = np.array(
        [2 * code_of[name] + out for name, out in zip(own, outside, strict=True)] or [0], np.int16
    )
    acts_on = np.array([name in columns for name in common] or [False], np.uint8)
    return FamilyTable(
        entries,
        acts_on,
        entries.ctypes.data,
        acts_on.ctypes.data,
        same_codes=own == common,
        whole=not any(outside),
    )


def restrict(source: Source, columns: ColumnSet) -> Source:
    """The same source speaking only for those of its columns that are in a set."""
    if columns.is_everything:
        return source
    return replace(source, columns=source.columns.intersect(columns))


class SourceTable:
    """A growing source matrix and everything that must stay alive while kernels read it."""

    def __init__(self, families: Families, capacity: int):
        self.families = families
        self.matrix: SourceMatrix = np.zeros((max(capacity, 1), SOURCE_WIDTH), np.int64)
        self.blocks: list[Block] = []
        self.owners: list[object] = []
        """For each slot what its numbers refer to, besides its block."""
        self._columns: list[ColumnSet] = []

    def add(self, source: Source, *, clean: bool = False) -> int:
        """Append a source and return its slot, the number runs call it by."""
        if not set(source.block.families) <= set(self.families):
            self._widen(source.block.families)
        slot = len(self.blocks)
        if slot == len(self.matrix):
            self.matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)])
        self.blocks.append(source.block)
        self._columns.append(source.columns)
        row = self.matrix[slot]
        row[:DESCRIPTOR_WIDTH] = source.block.descriptor
        txns = None
        if source.txn is not None:
            txns = np.full(source.block.count, source.txn, np.int64)
            row[TXNS] = txns.ctypes.data
        table = self._name_families(slot)
        self.owners.append((txns, table))
        row[CLEAN] = clean and table.whole
        return slot

    def _name_families(self, slot: int) -> FamilyTable:
        """Fill in the tables of a source; the caller keeps them alive."""
        row = self.matrix[slot]
        table = family_table(self.blocks[slot].families, self.families, self._columns[slot])
        row[FAMILY_MAP] = table.entries_address
        row[ACTS_ON] = table.acts_on_address
        row[SAME_CODES] = table.same_codes
        return table

    def _widen(self, families: Families) -> None:
        """Make room for more families: all codes change, and with them the tables."""
        self.families = tuple(sorted({*self.families, *families}))
        for slot in range(len(self.blocks)):
            self.owners[slot] = (self.owners[slot], self._name_families(slot))

    @staticmethod
    def of_rows(
        families: Families, matrix: SourceMatrix, blocks: list[Block], owner: object
    ) -> SourceTable:
        """A table whose matrix is made already; ``owner`` keeps alive what it refers to."""
        table = SourceTable(families, 0)
        table.matrix, table.blocks = matrix, blocks
        table.owners = [owner] * len(blocks)
        return table
