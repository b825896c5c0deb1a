"""Reads of single rows: one kernel call over all sources of a tablet.

What the kernel searches, a ``PointIndex``, is made from the references of a tablet and the runs in
memory, and kept until either changes; one for each choice of groups that reads ask for, so that
none touches files of another group. Recent row records are not in it; they are looked up in
their dictionary, and a row that has some is read the slower way, by a merge of what each source
has of it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from stele.kernels.block import Block
from stele.kernels.filter import ByteFilters, filter_cells
from stele.kernels.key_order import in_order
from stele.kernels.point_index import PointFragment, PointIndex
from stele.kernels.point_many import read_many
from stele.kernels.point_reader import PointReader, PointScratch
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
from stele.storage.references import Reference, file_references
from stele.storage.regions import NO_COLUMNS
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.read_sources import read_view
from stele.tablet.table_state import TableView

CHOICES_KEPT = 256
"""Selections of columns whose groups are remembered: programs have few, and use them often."""


@dataclass(frozen=True, slots=True, eq=False)
class _TabletIndex:
    """An index and what it was made from."""

    schema: Schema
    config: TabletConfig
    runs: tuple[object, ...]
    index: PointIndex


INDEXES_PER_TABLET = 8
"""Indexes kept: one for each set of groups that reads ask for. Making one is cheap."""


class PointReads:
    """Point reads of one table. Threads share it."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._indexes: dict[tuple[str, ColumnSet | None], _TabletIndex] = {}
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
        index = self._index(view, config, self._groups(view, spec.columns))
        return self._reader(view, index, spec).get(row, txn) if index.fragments else None

    def _reader(self, view: TableView, index: PointIndex, spec: CellSpec) -> PointReader:
        """This thread's reader of an index; the last one, if it was for the same kind of read."""
        local = self._local
        known: tuple[PointIndex, CellSpec, PointReader] | None = getattr(local, "reader", None)
        if known is not None and known[0] is index and (known[1] is spec or known[1] == spec):
            return known[2]
        if known is None:
            local.scratch = PointScratch()
        filters = ByteFilters(index.families, spec.columns, spec.filters, spec.cells_per_row)
        read = _as_indexed(view, read_view(view.layout, spec, 0))
        reader = PointReader(index, read, filters, local.scratch)
        local.reader = (index, spec, reader)
        return reader

    def read_many(self, view: TableView, spec: ReadSpec, txn: int) -> pa.RecordBatch:
        """The cells of many rows, in key order."""
        read = read_view(view.layout, spec, txn)
        keys = in_order(spec.rows)
        blocks: list[Block] = []
        for config, inside in _by_tablet(view, keys):
            groups = self._groups(view, spec.columns)
            selection = self._select_many(view, config, inside, read, groups)
            if selection is not None:
                if not _takes_all(spec):
                    selection, _ = filter_cells(selection, spec)
                blocks += selection.gather()
        batches = [block.batch for block in blocks if block.count]
        if len(batches) <= 1:
            return batches[0] if batches else cells_to_batch([])
        table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        return table.to_batches()[0]

    def _select_many(
        self,
        view: TableView,
        config: TabletConfig,
        keys: pa.BinaryArray,
        read: ReadView,
        groups: ColumnSet | None,
    ) -> Selection | None:
        if read.columns.is_empty:
            return None
        index, active = self._index(view, config, groups), view.memory.active
        if len(active):
            recent = PointFragment.in_memory(active.block, read.columns)
            index = PointIndex([*index.fragments, recent])
        if not index.fragments:
            return None
        return read_many(index, keys, _as_indexed(view, read)).selection

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
        return kept.block().batch if rows else None

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

    def _index(self, view: TableView, config: TabletConfig, groups: ColumnSet | None) -> PointIndex:
        """What to search, but for the active records; made again when something has changed."""
        schema, runs = view.layout.schema, (*view.memory.settled, *view.memory.recent)
        known = self._indexes.get((config.id, groups))
        if (
            known is not None
            and known.config is config
            and known.schema is schema
            and known.runs == runs
        ):
            return known.index
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
        if len(self._indexes) >= INDEXES_PER_TABLET * len(view.layout.tablets):
            self._indexes = {}  # most are of tablets and kinds of reads that are gone
        self._indexes[config.id, groups] = made
        return made.index


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
