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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stele.kernels.block import DESCRIPTOR_WIDTH, TXNS, Block, Families
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

SourceMatrix = npt.NDArray[np.int64]

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
    """A block as a reference shows it. ``facts`` are optional and only save work."""

    block: Block
    columns: ColumnSet = ALL_COLUMNS
    txn: int | None = None
    facts: Facts | None = None


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


def same_columns(sources: Sequence[Source]) -> bool:
    """Whether row erasures of all sources reach the same families."""
    return all(source.columns == sources[0].columns for source in sources)


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
        self.owners: list[tuple[object, ...]] = []
        self.sources: list[Source] = []

    def add(self, source: Source, *, clean: bool = False) -> int:
        """Append a source and return its slot, the number runs call it by."""
        if not set(source.block.families) <= set(self.families):
            self._widen(source.block.families)
        slot = len(self.sources)
        if slot == len(self.matrix):
            self.matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)])
        self.sources.append(source)
        row = self.matrix[slot]
        row[:DESCRIPTOR_WIDTH] = source.block.descriptor
        txns = None
        if source.txn is not None:
            txns = np.full(source.block.count, source.txn, np.int64)
            row[TXNS] = txns.ctypes.data
        self.owners.append((source.block, txns))
        whole = self._name_families(slot)
        row[CLEAN] = clean and whole
        return slot

    def _name_families(self, slot: int) -> bool:
        """Fill in the tables of a source; whether no family of its block is out of bounds."""
        source, row = self.sources[slot], self.matrix[slot]
        table = family_table(source.block.families, self.families, source.columns)
        row[FAMILY_MAP] = table.entries_address
        row[ACTS_ON] = table.acts_on_address
        row[SAME_CODES] = table.same_codes
        self.owners[slot] = (*self.owners[slot][:2], table)
        return table.whole

    def _widen(self, families: Families) -> None:
        """Make room for more families: all codes change, and with them the tables."""
        self.families = tuple(sorted({*self.families, *families}))
        for slot in range(len(self.sources)):
            self._name_families(slot)
