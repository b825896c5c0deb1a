"""Sorted blocks of cells, in any number, become one fragment for each locality group.

Flushes, recoveries and executors of Spark that recover a log all write through here. Nothing is
dropped: that is for compactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from stele.kernels.block import Block
from stele.kernels.compact import CompactionPlan, compaction_rule
from stele.kernels.merger import merge_parts
from stele.kernels.selection import empty_block
from stele.kernels.sources import Source
from stele.model.column_set import ColumnSet
from stele.model.columns import RETRY_FAMILY
from stele.model.groups import HIDDEN_GROUP, Group
from stele.model.schema import Schema
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.references import Reference, References

KEEP_EVERYTHING = CompactionPlan(horizon=-1)
"""Below no txn is anything superfluous."""

MERGED_CELLS = 16_384
MERGED_VALUE_BYTES = 2 << 20
"""How much is merged and copied at a time: the memory of one copy serves for the next (see
``kernels.arena``), and memory that was never touched before is dear."""


class FragmentMaker(Protocol):
    """Writes blocks as one durable fragment; none for no cells."""

    def __call__(
        self, blocks: Iterable[Block], *, table: str, options: FragmentOptions
    ) -> tuple[FragmentInfo, ...]: ...


def write_groups(
    write: FragmentMaker, table: str, schema: Schema, blocks: Sequence[Block]
) -> References:
    """Write sorted blocks as one fragment for each group that has cells in them."""
    references: list[Reference] = []
    for group in schema.stored_groups:
        infos = write(merged(blocks, schema, group), table=table, options=fragment_options(group))
        columns = schema.column_set(group)
        references.extend(Reference(info, columns=columns) for info in infos)
    return tuple(references)


def merged(blocks: Sequence[Block], schema: Schema, group: Group) -> Iterator[Block]:
    """All cells of one group, in order. Row erasures go into every group but the hidden one."""
    if group is HIDDEN_GROUP:
        blocks = [hidden for block in blocks if (hidden := hidden_cells(block)).count]
    return merged_blocks(blocks, schema.column_set(group))


def merged_blocks(blocks: Sequence[Block], columns: ColumnSet) -> Iterator[Block]:
    """All cells in some columns, in order."""
    sources = [Source(block, columns) for block in blocks]
    rule = compaction_rule(KEEP_EVERYTHING)
    for selection in merge_parts(sources, rule, MERGED_CELLS, MERGED_VALUE_BYTES):
        yield from selection.gather()


def fragment_options(group: Group) -> FragmentOptions:
    """How files of a group are written."""
    return FragmentOptions(compression=group.compression, block_cells=group.block_cells)


def hidden_cells(block: Block) -> Block:
    """The hidden cells of a block, and nothing else: no row erasures either."""
    if RETRY_FAMILY not in block.families or not block.count:
        return empty_block(block.families)
    codes = block.batch.column("family").indices.to_numpy()
    wanted = np.array([name == RETRY_FAMILY for name in block.families], np.bool_)
    return Block.from_batch(block.batch.filter(pa.array(wanted[codes])))
