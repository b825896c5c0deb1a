"""Reads of single rows: one kernel call over all sources of a tablet.

What the kernel searches, a ``PointIndex``, is made from the references of a tablet and the runs in
memory, and kept with the layout until either changes; one for each choice of groups that reads ask
for, so that none touches files of another group. If the store has let go of one of its files,
because too many are open, it is made again: no cache keeps what is read through a file let go of.
Recent row records are not in it; they are looked up in their dictionary, and a row that has some is
read the slower way, by a merge of what each source has of it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stele.errors import LimitExceeded
from stele.kernels.block import VALUE_OFFSETS, Block
from stele.kernels.filter import ByteFilters, filter_cells
from stele.kernels.gather import COLUMN_BYTES_MAX
from stele.kernels.key_order import in_order
from stele.kernels.point_index import PointFragment, PointIndex
from stele.kernels.point_many import read_many
from stele.kernels.point_reader import Missing, PointReader, PointScratch
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.search import slice_rows
from stele.kernels.selection import Selection
from stele.kernels.sources import Source
from stele.model.cells import cells_to_batch
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.columns import ColumnSelection
from stele.model.predicates import CellSpec, ReadSpec
from stele.model.ranges import RowRange
from stele.model.row import RowCells
from stele.model.schema import Schema
from stele.storage.block_cache import FragmentBlocks
from stele.storage.references import Reference, file_references
from stele.storage.regions import NO_COLUMNS
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.read_sources import read_view
from stele.tablet.table_state import TableView

CHOICES_KEPT = 256
"""Selections of columns whose groups are remembered: programs have few, and use them often."""


LOADED_BYTES_MAX = 64 << 20
"""Blocks that a read of many rows loads and holds at a time, about."""

TRIED_KEYS_MIN = 1_024
"""Keys that are looked for together, at least, when the first of them took all that may be held."""

INDEXES_PER_TABLET = 8
"""Indexes kept: one for each set of groups that reads ask for. Making one is cheap."""

READERS_PER_INDEX = 256
"""Threads whose reader is kept: those that are gone do not say so."""


@dataclass(frozen=True, slots=True, eq=False)
class _TabletIndex:
    """An index, what it was made from, and the last reader of each thread."""

    schema: Schema
    config: TabletConfig
    runs: tuple[object, ...]
    index: PointIndex
    readers: dict[int, tuple[CellSpec, PointReader]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the store still keeps what is read of its files."""
        tables = (fragment.table for fragment in self.index.fragments)
        return all(table.users for table in tables if isinstance(table, FragmentBlocks))


class PointReads:
    """Point reads of one table. Threads share it."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._choices: dict[ColumnSelection, tuple[Schema, ColumnSet]] = {}
        self._local = threading.local()

    def read(self, view: TableView, row: bytes, spec: CellSpec, txn: int) -> RowCells | None:
        """The cells of one row that a read at ``txn`` sees; ``None`` for none."""
        config = view.layout.tablets.find(row)
        assert config is not None, "an embedded table has all its tablets"
        if view.memory.active.row_block(row) is not None or _needs_merge(spec):
            return self._merge_row(view, config, row, spec, txn)
        if spec.filters and not _holds_row(spec, row):
            return None
        groups = self._groups(view, spec.columns)
        made = self._index(view, config, groups)
        if not made.index.fragments:
            return None
        found = self._reader(view, made, spec).get_cached(row, txn)
        if isinstance(found, Missing):
            made = self._index(view, config, groups, must_be_open=True)
            found = self._reader(view, made, spec).get(row, txn)
        return found

    def _reader(self, view: TableView, made: _TabletIndex, spec: CellSpec) -> PointReader:
        """This thread's reader of an index; the last one, if it was for the same kind of read."""
        thread = threading.get_ident()
        known = made.readers.get(thread)
        if known is not None and (known[0] is spec or known[0] == spec):
            return known[1]
        scratch: PointScratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = PointScratch()
        filters = ByteFilters(made.index.families, spec.columns, spec.filters, spec.cells_per_row)
        read = _as_indexed(view, read_view(view.layout, spec, 0))
        reader = PointReader(made.index, read, filters, scratch)
        if len(made.readers) >= READERS_PER_INDEX:
            made.readers.clear()
        made.readers[thread] = (spec, reader)
        return reader

    def read_many(self, view: TableView, spec: ReadSpec, txn: int) -> pa.RecordBatch:
        """The cells of many rows, in key order."""
        read = read_view(view.layout, spec, txn)
        keys = in_order(spec.rows)
        blocks: list[Block] = []
        for config, inside in _by_tablet(view, keys) if not read.columns.is_empty else ():
            groups = self._groups(view, spec.columns)
            for selection, copies in self._select_many(view, config, inside, read, groups):
                kept = selection if _takes_all(spec) else filter_cells(selection, spec)[0]
                blocks += kept.gather(copies=copies)
        return _one_batch(blocks)

    def _select_many(
        self,
        view: TableView,
        config: TabletConfig,
        keys: pa.BinaryArray,
        read: ReadView,
        groups: ColumnSet | None,
    ) -> Iterator[tuple[Selection, bool]]:
        """The cells of rows of one tablet, in parts; whether what they lie in must not be kept."""
        index = self._index(view, config, groups, must_be_open=True).index
        active, shown = view.memory.active, _as_indexed(view, read)
        if len(active):
            recent = PointFragment.in_memory(active.block, read.columns)
            index = PointIndex([*index.fragments, recent])
        start, tried = 0 if index.fragments else len(keys), len(keys)
        while start < len(keys):
            found = read_many(index, keys[start : start + tried], shown, LOADED_BYTES_MAX)
            yield found.selection, found.keys < len(keys)
            start, tried = start + found.keys, max(TRIED_KEYS_MIN, 2 * found.keys)

    def _merge_row(
        self, view: TableView, config: TabletConfig, row: bytes, spec: CellSpec, txn: int
    ) -> pa.RecordBatch | None:
        """The general way: merge what every source has of the row."""
        only = RowRange.row(row)
        read = read_view(view.layout, spec, txn)
        sources = [
            Source(slice_rows(block, only), read.columns)
            for block in view.memory.row_blocks(row, txn)
        ]
        for reference in file_references(config.references):
            if reference.columns.overlaps(read.columns):
                sources += self._sources(reference, only)
        kept, rows = filter_cells(merge_resolve(sources, read), spec)
        return _one_batch(kept.gather()) if rows else None

    def _sources(self, reference: Reference, only: RowRange) -> list[Source]:
        if not reference.rows.covers(only):
            return []
        fragment = self._engine.fragments.open(reference.file)
        blocks = [
            slice_rows(fragment.blocks.get(group), only)
            for group in fragment.reader.index.groups_of_row(only.start)
        ]
        return [Source(block, reference.columns, reference.txn) for block in blocks if block.count]

    def _groups(self, view: TableView, wanted: ColumnSelection) -> ColumnSet | None:
        """The columns of all groups that have a wanted one; ``None`` if everything is wanted."""
        if wanted.families is None:
            return None
        schema = view.layout.schema
        known = self._choices.get(wanted)
        if known is not None and known[0] is schema:
            return known[1]
        groups = NO_COLUMNS
        for columns in map(schema.column_set, schema.groups):
            if columns.overlaps(wanted.column_set):
                groups = groups.union(columns)
        if len(self._choices) >= CHOICES_KEPT:
            self._choices.clear()
        self._choices[wanted] = (schema, groups)
        return groups

    def _index(
        self,
        view: TableView,
        config: TabletConfig,
        groups: ColumnSet | None,
        *,
        must_be_open: bool = False,
    ) -> _TabletIndex:
        """What to search, but for the active records; made again when something has changed."""
        schema, runs = view.layout.schema, (*view.memory.settled, *view.memory.recent)
        indexes = view.layout.indexes
        known = indexes.get((config.id, groups))
        if (
            isinstance(known, _TabletIndex)
            and known.config is config
            and known.schema is schema
            and known.runs == runs
            and (known.is_open or not must_be_open)
        ):
            return known
        served = view.layout.served
        blocks = (slice_rows(run.block, config.rows) for run in runs)
        fragments = [
            *(
                _fragment(self._engine.fragments, reference)
                for reference in file_references(config.references)
                if reference.columns.overlaps(served if groups is None else groups)
            ),
            *(PointFragment.in_memory(block, served) for block in blocks if block.count),
        ]
        made = _TabletIndex(schema, config, runs, PointIndex(fragments))
        if len(indexes) >= INDEXES_PER_TABLET * len(view.layout.tablets):
            indexes.clear()  # most are of kinds of reads that are over
        indexes[config.id, groups] = made
        return made


def _one_batch(blocks: Sequence[Block]) -> pa.RecordBatch:
    """The cells of blocks, one after the other."""
    batches = [block.batch for block in blocks if block.count]
    if len(batches) <= 1:
        return batches[0] if batches else cells_to_batch([])
    size = sum(block.column_bytes(VALUE_OFFSETS) for block in blocks)
    if size > COLUMN_BYTES_MAX:
        raise LimitExceeded(
            f"the values that are read have {size} bytes, more than one batch can hold "
            f"({COLUMN_BYTES_MAX}): ask for fewer rows, or scan them"
        )
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    (batch,) = table.to_batches()
    return batch


def _as_indexed(view: TableView, read: ReadView) -> ReadView:
    """A read of all that is served need not be told so: an index has nothing else."""
    return replace(read, columns=ALL_COLUMNS) if read.columns is view.layout.served else read


def _holds_row(spec: CellSpec, row: bytes) -> bool:
    """Whether the filters on rows let this one through: the kernel of point reads has its key."""
    return all(
        any(part.contains(row) for part in one.ranges or ()) for one in spec.filters_on("row")
    )


def _takes_all(spec: CellSpec) -> bool:
    """Whether nothing that is visible is filtered out."""
    return spec.columns.families is None and not spec.filters and spec.cells_per_row is None


def _needs_merge(spec: CellSpec) -> bool:
    """Regular expressions run in Arrow, not in the kernel of point reads."""
    return any(one.regex is not None for one in spec.filters)


def _fragment(store: FragmentStore, reference: Reference) -> PointFragment:
    fragment = store.open(reference.file)
    index = fragment.reader.index
    return PointFragment(
        index.rows,
        fragment.blocks,
        index.metadata.summary.families,
        columns=reference.columns,
        fence=reference.rows,
        txn=reference.txn,
        block_cells_max=max(index.cells),
    )


def _by_tablet(
    view: TableView, keys: pa.BinaryArray
) -> Iterator[tuple[TabletConfig, pa.BinaryArray]]:
    """Sorted keys, cut where tablets end."""
    if not len(keys):
        return

    def key(at: int) -> bytes:
        found: bytes = keys[at].as_py()
        return found

    start, places = 0, range(len(keys))
    for config in view.layout.tablets.overlapping(RowRange(key(0), key(-1) + b"\x00")):
        end = config.rows.end
        stop = len(keys) if end is None else bisect_left(places, end, start, key=key)
        if stop > start:
            yield config, keys[start:stop]
        start = stop
