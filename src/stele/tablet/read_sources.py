"""What a read of a tablet merges: blocks of memory, and blocks of fragments through references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from stele.errors import Corruption, NotFound
from stele.kernels.block import Block
from stele.kernels.resolve import ReadView
from stele.kernels.search import slice_rows
from stele.kernels.sources import Source
from stele.model.cells import TIMESTAMP_MAX
from stele.model.column_set import ColumnSet
from stele.model.columns import EVERY_COLUMN, ColumnSelection
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.storage.cache_priority import Priority
from stele.storage.memory_table import MemoryVersion
from stele.storage.reference_streams import reference_sources, runs
from stele.storage.references import Reference, file_references
from stele.tablet.fragment_store import FragmentStore, OpenFragment
from stele.tablet.table_state import TableLayout


@dataclass(slots=True)
class ReadCounters:
    """What a read has touched, for ``explain``."""

    tablets: int = 0
    memory_blocks: int = 0
    fragments: set[str] = field(default_factory=set)
    blocks_from_cache: int = 0
    blocks_from_disk: int = 0
    cells_returned: int = 0


def read_view(layout: TableLayout, spec: CellSpec, txn: int) -> ReadView:
    """What a read of a table at a txn sees: columns that are asked for and served."""
    wanted = layout.served
    if not spec.columns.is_everything:
        wanted = wanted.intersect(spec.columns.column_set)
    return ReadView(
        txn=txn,
        versions=spec.versions,
        time_start=spec.time_start,
        time_end=None if spec.time_end == TIMESTAMP_MAX else spec.time_end,
        columns=wanted,
    )


def missing_file(table: str, error: NotFound) -> Corruption:
    """What it means that a file is not there which the newest layout refers to."""
    return Corruption(f"a file that table {table!r} refers to is missing: {error}")


def memory_blocks(memory: MemoryVersion, rows: RowRange, txn: int) -> list[Block]:
    """The parts of memory that lie in a row range and may hold something up to a txn."""
    blocks = (slice_rows(block, rows) for block in memory.blocks(txn))
    return [block for block in blocks if block.count]


def fragment_stream(
    store: FragmentStore,
    reference: Reference,
    counters: ReadCounters,
    *,
    reverse: bool = False,
    wanted: ColumnSelection = EVERY_COLUMN,
) -> Iterator[Source]:
    """The blocks of a reference in order, or from the last to the first.

    The file is opened at once, blocks are read when they are due. A scan takes blocks from the
    cache and puts none there, as it would use each once, but for those of in-memory groups. Cells
    that are not ``wanted`` may be left out: a file that can read fewer columns does so.
    """
    fragment = store.open(reference.file)
    counters.fragments.add(reference.file.name)

    def block_of(group: int) -> Block:
        block = fragment.blocks.blocks[group]
        if block is None:
            counters.blocks_from_disk += 1
            if fragment.blocks.priority is not Priority.ON_DEMAND:
                return fragment.blocks.get(group)
            return fragment.reader.read_columns(group, wanted)
        counters.blocks_from_cache += 1
        return block

    groups = fragment.groups(reference.rows)
    return stream_sources(fragment, reference, block_of, groups[::-1] if reverse else groups)


def stream_sources(
    fragment: OpenFragment,
    reference: Reference,
    block_of: Callable[[int], Block],
    groups: Iterable[int],
) -> Iterator[Source]:
    """Row groups of an open file as a reference shows them; none is empty."""
    return reference_sources(fragment.reader.index, reference, block_of, groups)


def tablet_streams(
    store: FragmentStore,
    references: Iterable[Reference],
    memory: Iterable[Block],
    columns: ColumnSet,
    counters: ReadCounters,
    *,
    reverse: bool = False,
    wanted: ColumnSelection = EVERY_COLUMN,
) -> list[Iterable[Source]]:
    """One stream for each source of a tablet."""
    streams: list[Iterable[Source]] = [(Source(block, columns),) for block in memory]
    counters.memory_blocks += len(streams)
    for run in runs(file_references(references)):
        parts = [
            fragment_stream(store, ref, counters, reverse=reverse, wanted=wanted) for ref in run
        ]
        streams.append(chain.from_iterable(parts[::-1] if reverse else parts))
    return streams
