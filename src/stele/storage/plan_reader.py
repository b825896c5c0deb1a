"""Reading references without an engine: what executors do with the parts of a read plan.

The same streams, merge and filters as a scan of a tablet, over the same files, with nothing of the
tablet: no memory, no cache, no layout that may change. A reader opens a file when it comes to it
and closes it when it is done.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from stele.env import paths
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.kernels.filter import filter_cells
from stele.kernels.resolve import ReadView, read_rule
from stele.kernels.sources import Source
from stele.kernels.stream import merge_streams
from stele.model.cells import TIMESTAMP_MAX
from stele.model.column_set import ColumnSet
from stele.model.columns import ColumnSelection
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.storage.fragment_reader import FragmentReader
from stele.storage.reference_streams import first_row, last_row, reference_sources, runs
from stele.storage.references import Reference, file_references, restrict


class PlanReader:
    """Reads cells of one table at one txn from the files in a directory. For one thread."""

    def __init__(self, files: FileSystem, directory: str, txn: int, served: ColumnSet):
        self._files = files
        self._directory = directory
        self._txn = txn
        self._served = served

    def read(
        self, references: Iterable[Reference], rows: RowRange, spec: CellSpec
    ) -> Iterator[Block]:
        """The cells of a row range that ``spec`` asks for, whole rows in each block, in order."""
        view = self._view(spec)
        if view.columns.is_empty:
            return
        inside = restrict(references, rows, view.columns)
        streams = [self._run(run, spec.columns) for run in runs(file_references(inside))]
        takes_all = spec.columns.is_everything and not spec.filters and spec.cells_per_row is None
        if len(streams) == 1 and takes_all:
            yield from _clean_first(streams[0], view)
            return
        for selection in merge_streams(streams, read_rule(view)):
            if takes_all:
                yield from selection.gather()
            else:
                yield from filter_cells(selection, spec)[0].gather()

    def read_rows(
        self, references: Iterable[Reference], keys: Sequence[bytes], spec: CellSpec
    ) -> Iterator[pa.RecordBatch]:
        """The cells of single rows, given in order; only blocks that may hold any are read."""
        yield from self.resolve_rows(self.row_streams(references, keys, spec), keys, spec)

    def row_streams(
        self, references: Iterable[Reference], keys: Sequence[bytes], spec: CellSpec
    ) -> list[Iterator[Source]]:
        """What has to be merged for single rows, given in order."""
        columns = self._view(spec).columns
        if columns.is_empty or not keys:
            return []
        inside = restrict(references, RowRange(keys[0], keys[-1] + b"\0"), columns)
        return [self._rows(run, spec.columns, keys) for run in runs(file_references(inside))]

    def resolve_rows(
        self, streams: Sequence[Iterable[Source]], keys: Sequence[bytes], spec: CellSpec
    ) -> Iterator[pa.RecordBatch]:
        """The cells that single rows have in these streams at this reader's txn."""
        wanted = pa.array(keys, pa.binary())
        for selection in merge_streams(streams, read_rule(self._view(spec))):
            for block in filter_cells(selection, spec)[0].gather():
                batch = block.batch
                chosen = batch.filter(pc.is_in(batch.column("row"), value_set=wanted))
                if chosen.num_rows:
                    yield chosen

    def _rows(
        self, run: Iterable[Reference], wanted: ColumnSelection, keys: Sequence[bytes]
    ) -> Iterator[Source]:
        """Other rows of these blocks may be incomplete; whoever asks for single rows drops them."""
        for reference in run:
            path = paths.join(self._directory, reference.file.name)
            with FragmentReader.open(self._files, path, reference.file) as reader:
                index = reader.index
                near = keys[
                    bisect_left(keys, first_row(reference)) : bisect_right(
                        keys, last_row(reference)
                    )
                ]
                groups = sorted({group for key in near for group in index.groups_of_row(key)})
                block_of = partial(reader.read_columns, columns=wanted)
                for place, group in enumerate(groups):
                    goes_on = group + 1 in groups[place + 1 : place + 2]
                    for source in reference_sources(index, reference, block_of, (group,)):
                        yield replace(source, continues=source.continues and goes_on)

    def _view(self, spec: CellSpec) -> ReadView:
        wanted = self._served
        if not spec.columns.is_everything:
            wanted = wanted.intersect(spec.columns.column_set)
        return ReadView(
            txn=self._txn,
            versions=spec.versions,
            time_start=spec.time_start,
            time_end=None if spec.time_end == TIMESTAMP_MAX else spec.time_end,
            columns=wanted,
        )

    def _run(self, run: Iterable[Reference], wanted: ColumnSelection) -> Iterator[Source]:
        for reference in run:
            path = paths.join(self._directory, reference.file.name)
            with FragmentReader.open(self._files, path, reference.file) as reader:
                groups = reader.index.groups_of_range(reference.rows)
                block_of = partial(reader.read_columns, columns=wanted)
                yield from reference_sources(reader.index, reference, block_of, groups)


def _clean_first(stream: Iterator[Source], view: ReadView) -> Iterator[Block]:
    """One run alone: its blocks as they are, as long as every cell of them is visible."""
    for source in stream:
        whole = all(family in source.columns for family in source.block.families)
        if source.txn is not None or source.continues or not (whole and view.passes(source)):
            rest = chain([source], stream)
            for selection in merge_streams([rest], read_rule(view)):
                yield from selection.gather()
            return
        yield source.block
