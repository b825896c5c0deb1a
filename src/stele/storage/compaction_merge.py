"""The merge of a compaction: some references become one stream of cells, and what may go is gone.

Compactions inside a tablet server and those of Spark's executors both come through here, so that
the two cannot differ in what they keep. Inputs are streamed, a block of each at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from stele.env import paths
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.kernels.compact import CompactionPlan, compaction_rule
from stele.kernels.sources import Source
from stele.kernels.stream import OutputSize, merge_streams
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.storage.fragment_reader import FragmentReader
from stele.storage.group_merge import MERGED_CELLS, MERGED_VALUE_BYTES
from stele.storage.reference_streams import reference_sources
from stele.storage.references import Reference, file_references, restrict

StreamOf = Callable[[Reference], Iterator[Source]]
"""The blocks of a reference to one file, in order."""


def compacted(
    references: Iterable[Reference],
    rows: RowRange,
    columns: ColumnSet,
    plan: CompactionPlan,
    stream_of: StreamOf,
) -> Iterator[Block]:
    """What a compaction of references keeps of some rows, for a group with these columns.

    Where a reference has fewer columns than the group, cells outside of them are left out here, and
    it acts on all columns of the group from then on. For row erasures that changes nothing: one was
    written into every group of its time, and what came later is above its txn.
    """
    streams = [
        stream_of(part) if part.columns == columns else _widened(stream_of(part), columns)
        for part in file_references(restrict(references, rows))
    ]
    size = OutputSize(MERGED_CELLS, MERGED_VALUE_BYTES)
    for selection in merge_streams(streams, compaction_rule(plan), size):
        yield from selection.gather()


def stream_of_files(files: FileSystem, directory: str) -> StreamOf:
    """Streams from files of a directory; each is open while it is read, and no longer."""

    def stream(reference: Reference) -> Iterator[Source]:
        path = paths.join(directory, reference.file.name)
        with FragmentReader.open(files, path, reference.file) as reader:
            groups = reader.index.groups_of_range(reference.rows)
            yield from reference_sources(reader.index, reference, reader.read_block, groups)

    return stream


def _widened(stream: Iterator[Source], columns: ColumnSet) -> Iterator[Source]:
    """The same cells, trimmed to the columns they were seen through, acting on more columns."""
    held: Source | None = None
    for source in stream:
        block = only_columns(source.block, source.columns)
        if not block.count:
            continue
        if held is not None:
            same_row = held.block.row(held.block.count - 1) == block.row(0)
            yield replace(held, continues=same_row)
        held = replace(source, block=block, columns=columns, continues=False)
    if held is not None:
        yield held


def only_columns(block: Block, columns: ColumnSet) -> Block:
    """The cells of a block in some columns, and its row erasures."""
    wanted = np.array(
        [name == ROW_ERASURE_FAMILY or name in columns for name in block.families], np.bool_
    )
    if wanted.all():
        return block
    codes = block.batch.column("family").indices.to_numpy()
    return Block.from_batch(block.batch.filter(pa.array(wanted[codes])))
