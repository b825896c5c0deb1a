"""Reading what changed in a table between two txns, from the files of a plan alone.

Everything above a table's horizon is still in its files, each mutation with its txn: a compaction
drops nothing that a read, or a feed, from the horizon on needs. So a range of txns ``(since,
until]`` is read back from the files, and a file none of whose txns lie in it is not opened.

There are two ways to tell it:

*all*   every mutation as it was committed, erasures too, by rising txn, in cell order within one.
        Memory holds a bounded *window* of txns: what does not fit is read again in the next.
*net*   for each row that any mutation touched, the cells that a read sees at ``since`` and at
        ``until``. Only blocks that may hold such a row are read of files that hold no mutation.

A feed from the beginning, ``since`` = 0, sees no cell at its start, however far history reaches
back: what is left of the past is told, and that is all that a reader of today can see of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.env import paths
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.kernels.merge import MERGE_RULE
from stele.kernels.search import slice_rows
from stele.kernels.sources import Source
from stele.kernels.stream import merge_streams
from stele.model.arrays import Bools, Ints, numbers
from stele.model.cells import CELLS, ROW_ERASURE_FAMILY, Op, cells_to_batch
from stele.model.column_set import ColumnSet
from stele.model.columns import ColumnSelection
from stele.model.predicates import CellSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.change_window import ChangeWindow, joined
from stele.storage.fragment_reader import FragmentReader
from stele.storage.plan_reader import PlanReader
from stele.storage.reference_streams import runs
from stele.storage.references import Reference, file_references, restrict

FROM_NOTHING = 0
"""As ``since``: the table was empty then, whatever history has to say about it."""

ROWS_AT_ONCE = 4_096
"""Changed rows whose cells are read together: each time, files are opened anew."""


@dataclass(frozen=True, slots=True)
class NetRows:
    """Rows that were touched, and what reads see of them; both batches are in cell order."""

    rows: pa.BinaryArray
    """In order, each once."""
    txns: Ints
    """For each row the last txn in the range that touched it."""
    before: pa.RecordBatch
    after: pa.RecordBatch


def may_hold(reference: Reference, since: int, until: int) -> bool:
    """Whether any cell seen through a reference may have a txn in ``(since, until]``."""
    low = reference.file.summary.txn_min if reference.txn is None else reference.txn
    return low <= until and reference.txn_max > since


class ChangeReader:
    """Reads one range of txns of one table. For one thread."""

    def __init__(
        self, files: FileSystem, directory: str, since: int, until: int, served: ColumnSet
    ):
        self._files = files
        self._directory = directory
        self._since = since
        self._until = until
        self._served = served

    def mutations(
        self,
        references: Iterable[Reference],
        rows: RowRange,
        columns: ColumnSelection,
        window: ChangeWindow | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Every mutation of a row range, by rising txn and in cell order within a txn."""
        found, since = tuple(references), self._since
        window = window or ChangeWindow()
        while since < self._until:
            window.open(self._until)
            for block in self._merged(found, rows, columns, since, self._until):
                window.add(block.batch)
            if window.until > since:
                yield from window.batches()
                since = window.until
            else:  # one txn alone is more than a window: its cells come in order by themselves
                for block in self._merged(found, rows, columns, since, since + 1):
                    yield block.batch
                since += 1

    def net(
        self, references: Iterable[Reference], rows: RowRange, spec: CellSpec
    ) -> Iterator[NetRows]:
        """The rows of a range that were touched, as reads at both ends see them."""
        found = tuple(references)
        if self._since == FROM_NOTHING:
            yield from self._everything(found, rows, spec)
            return
        early, late = self._reader(self._since), self._reader(self._until)
        for keys, txns in self._touched(found, rows, spec.columns):
            names = keys.to_pylist()
            streams = [only_rows(stream, names) for stream in late.row_streams(found, names, spec)]
            yield NetRows(
                keys,
                txns,
                joined(early.resolve_rows(streams, names, spec)),
                joined(late.resolve_rows(streams, names, spec)),
            )

    def _reader(self, txn: int) -> PlanReader:
        return PlanReader(self._files, self._directory, txn, self._served)

    def _everything(
        self, references: Sequence[Reference], rows: RowRange, spec: CellSpec
    ) -> Iterator[NetRows]:
        """All rows there are at the end, from nothing; touched last by what is left of them."""
        nothing = cells_to_batch(())
        for block in self._reader(self._until).read(references, rows, spec):
            batch = block.batch
            keys, txns = last_txns(batch)
            yield NetRows(keys, txns, nothing, batch)

    def _touched(
        self, references: Sequence[Reference], rows: RowRange, columns: ColumnSelection
    ) -> Iterator[tuple[pa.BinaryArray, Ints]]:
        """The rows with a mutation in the range, in order, each with the last of its txns."""
        for block in self._merged(references, rows, columns, self._since, self._until):
            keys, txns = last_txns(block.batch)
            for start in range(0, len(keys), ROWS_AT_ONCE):
                stop = start + ROWS_AT_ONCE
                yield keys.slice(start, ROWS_AT_ONCE), txns[start:stop]

    def _merged(
        self,
        references: Iterable[Reference],
        rows: RowRange,
        columns: ColumnSelection,
        since: int,
        until: int,
    ) -> Iterator[Block]:
        """The mutations of a range of txns in cell order, each once; whole rows in each block."""
        wanted = _Wanted(since, until, columns)
        acting = self._served.intersect(columns.column_set)
        inside = file_references(restrict(references, rows, acting))
        touched = [reference for reference in inside if may_hold(reference, since, until)]
        streams = [self._run(run, wanted) for run in runs(touched)]
        for selection in merge_streams(streams, MERGE_RULE):
            yield from selection.gather()

    def _run(self, run: Iterable[Reference], wanted: _Wanted) -> Iterator[Source]:
        for reference in run:
            yield from changed_sources(self._files, self._directory, reference, wanted)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which mutations are looked for."""

    since: int
    until: int
    columns: ColumnSelection

    def holds_all_of(self, reference: Reference) -> bool:
        """Whether every cell of a reference has a txn in the range."""
        summary = reference.file.summary
        low = summary.txn_min if reference.txn is None else reference.txn
        return self.since < low and reference.txn_max <= self.until

    def in_time(self, txns: Ints) -> Bools:
        """Those that lie in the range."""
        chosen: Bools = (self.since < txns) & (txns <= self.until)
        return chosen


def changed_sources(
    files: FileSystem, directory: str, reference: Reference, wanted: _Wanted
) -> Iterator[Source]:
    """The mutations of a reference that are wanted, block by block; none is empty."""
    path = paths.join(directory, reference.file.name)
    held: Source | None = None
    with FragmentReader.open(files, path, reference.file) as reader:
        for group in reader.index.groups_of_range(reference.rows):
            block = _changed_block(reader, group, reference, wanted)
            if block is None:
                continue
            if held is not None:
                same_row = held.block.row(held.block.count - 1) == block.row(0)
                yield replace(held, continues=same_row)
            held = Source(block, txn=reference.txn)
    if held is not None:
        yield held


def _changed_block(
    reader: FragmentReader, group: int, reference: Reference, wanted: _Wanted
) -> Block | None:
    """The mutations of a row group that are wanted; ``None`` if there are none.

    Where a file has other txns too, those of the group are looked at before the rest is read.
    """
    whole = wanted.holds_all_of(reference)
    if not whole and not wanted.in_time(reader.read_txns(group)).any():
        return None
    block = slice_rows(reader.read_columns(group, wanted.columns), reference.rows)
    if not block.count:
        return None
    mask = in_columns(block, reference.columns, wanted.columns)
    if not whole:
        mask &= wanted.in_time(numbers(block.batch.column("txn"), np.int64))
    if mask.all():
        return block
    return Block.from_batch(block.batch.filter(pa.array(mask))) if mask.any() else None


def in_columns(block: Block, shown: ColumnSet, selected: ColumnSelection) -> Bools:
    """The cells that a reference shows and that say something of selected columns.

    An erasure of a row says something of every column, that of a family of each in the family.
    """
    mask = np.ones(block.count, np.bool_)
    batch = block.batch
    codes = numbers(batch.column("family").indices, np.int16)
    ops = numbers(batch.column("op"), np.int8)
    for code, family in enumerate(block.families):
        if family == ROW_ERASURE_FAMILY:
            continue
        ranges = selected.ranges(family) if family in shown else ()
        if ranges == (EVERYTHING,):
            continue
        mine = codes == code
        if not ranges:
            mask &= ~mine
        elif mine.any():
            named = _in_ranges(batch.column("qualifier"), ranges)
            mask &= ~mine | named | (ops == Op.ERASE_FAMILY)
    return mask


def _in_ranges(qualifiers: pa.BinaryArray, ranges: Iterable[RowRange]) -> Bools:
    found = np.zeros(len(qualifiers), np.bool_)
    for one in ranges:
        inside = pc.greater_equal(qualifiers, pa.scalar(one.start, pa.binary()))
        if one.end is not None:
            inside = pc.and_(inside, pc.less(qualifiers, pa.scalar(one.end, pa.binary())))
        found |= inside.to_numpy(zero_copy_only=False)
    return found


def only_rows(stream: Iterable[Source], rows: Sequence[bytes]) -> list[Source]:
    """The cells of some rows, which are in order; nothing keeps the blocks they were in."""
    found = []
    for source in stream:
        block = source.block
        first, last = block.row(0), block.row(block.count - 1)
        near = rows[bisect_left(rows, first) : bisect_right(rows, last)]
        batch = block.batch
        mask = pc.is_in(batch.column("row"), value_set=pa.array(near, pa.binary()))
        kept = batch.filter(mask)
        if kept.num_rows:
            goes_on = source.continues and near[-1] == last
            found.append(replace(source, block=Block.from_batch(kept), continues=goes_on))
    return found


def last_txns(cells: pa.RecordBatch) -> tuple[pa.BinaryArray, Ints]:
    """The rows of cells in cell order, each once, and the highest txn in each."""
    assert cells.schema.equals(CELLS)
    rows = cells.column("row")
    begins = np.ones(len(rows), np.bool_)
    if len(rows) > 1:
        changes = pc.not_equal(rows.slice(0, len(rows) - 1), rows.slice(1))
        begins[1:] = changes.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(begins)
    txns = numbers(cells.column("txn"), np.int64)
    return rows.take(pa.array(starts)), np.maximum.reduceat(txns, starts)
