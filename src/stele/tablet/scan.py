"""Scans: ranges of rows as a stream of Arrow batches.

A scan goes through its ranges tablet by tablet. When it reaches a tablet it takes the table's
newest view, so splits, joins, flushes and compactions between two tablets go unnoticed: whatever
the layout, a read at the same txn sees the same cells. Within a tablet one block of each source is
in memory, however large the tablet.

The mode says which txn a view is read at (``stele.model.predicates.ScanMode``). A batch is always
of one txn and has whole rows, so that the txn can change between two batches and never within a
row:

* ``snapshot``: the same txn from beginning to end;
* ``any``: each tablet at what is durable when the scan reaches it;
* ``isolated``: as new as ``any`` in each tablet, and after each batch, if there were commits
  meanwhile, the rest of the tablet is read anew;
* ``latest``: as ``isolated``, with commits that are not durable yet.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from stele.errors import NotFound
from stele.kernels.block import Block
from stele.kernels.filter import filter_cells
from stele.kernels.resolve import ReadView, read_rule
from stele.kernels.selection import Selection
from stele.kernels.sources import Source
from stele.kernels.stream import merge_streams, whole_rows
from stele.kernels.stream_reverse import merge_streams_reversed
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.storage.references import restrict
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.read_sources import (
    ReadCounters,
    memory_blocks,
    missing_file,
    read_view,
    tablet_streams,
)
from stele.tablet.table_state import TableState, TableView

FOLLOWING_MODES = frozenset({"isolated", "latest"})
"""Those that look for newer commits after each batch."""

Views = Callable[[Iterable[RowRange]], tuple[TableView, int]]
"""Gives what is to be read of some rows from now on: a view of the table, and the txn to read it
at."""


def _nothing() -> None:
    pass


class TableScan:
    """Implements ``CellStream``. For one thread at a time.

    It is only the handle. What reads does not know it, so whoever drops it lets go at once of all
    that the scan holds, without waiting for the collector of cycles.
    """

    def __init__(
        self,
        engine: Engine,
        state: TableState,
        spec: ScanSpec,
        views: Views,
        before_batch: Callable[[], None] = _nothing,
        on_close: Callable[[], None] = _nothing,
    ):
        """``before_batch`` may refuse to go on; ``on_close`` is called once."""
        self._closed = True
        self._course = _Course(engine, state, spec, views)
        self._batches = self._course.batches()
        self._before_batch = before_batch
        self._on_close = on_close
        self._closed = False

    @property
    def txn(self) -> int:
        return self._course.txn

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._closed:
            raise StopIteration
        try:
            self._course.state.check_served()  # T53
            self._before_batch()
            return next(self._batches)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._batches.close()
            self._on_close()

    def __del__(self) -> None:
        self.close()

    def explain(self) -> dict[str, Any]:
        counters = self._course.counters
        return {
            "table": self._course.state.name,
            "txn": self.txn,
            "tablets": counters.tablets,
            "memory_blocks": counters.memory_blocks,
            "fragments": sorted(counters.fragments),
            "blocks_from_cache": counters.blocks_from_cache,
            "blocks_from_disk": counters.blocks_from_disk,
            "cells": counters.cells_returned,
        }


class _Course:
    """How a scan proceeds: what of its ranges is left, and the view it reads now."""

    def __init__(self, engine: Engine, state: TableState, spec: ScanSpec, views: Views):
        self.state = state
        self.counters = ReadCounters()
        self._engine = engine
        self._spec = spec
        self._views = views
        self._view, self.txn = views(spec.ranges)
        self._rows_left = spec.limit
        self._follows = spec.mode in FOLLOWING_MODES
        self._takes_all = spec == ScanSpec(
            ranges=spec.ranges, versions=spec.versions, at=spec.at, mode=spec.mode
        )
        """Nothing but rows, versions and time decides what is read."""

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        left = list(self._spec.ranges)
        while left:
            piece = self._take_piece(left)
            for found in self._read(piece):
                last: bytes | None = None
                for batch in self._batches_of(found):
                    yield batch
                    last = batch.column(0)[-1].as_py()
                if self._rows_left == 0:
                    return
                if last is not None and self._has_news():
                    self._give_back(left, piece, last)
                    break

    def _take_piece(self, left: list[RowRange]) -> RowRange:
        """What to read next of what is left, within one tablet of the newest layout."""
        wanted = left.pop() if self._spec.reverse else left.pop(0)
        tablets = self.state.layout.tablets.overlapping(wanted)
        piece = wanted.intersect(self._ordered(tablets)[0].rows)
        assert piece is not None
        if self._spec.reverse and wanted.start < piece.start:
            left.append(RowRange(wanted.start, piece.start))
        if not self._spec.reverse and piece.end is not None and piece.end != wanted.end:
            left.insert(0, RowRange(piece.end, wanted.end))
        return piece

    def _has_news(self) -> bool:
        """Whether a newer view may show more than the one that is being read."""
        if not self._follows:
            return False
        engine, state = self._engine, self.state
        reached = engine.committed_txn if self._spec.mode == "latest" else engine.durable_txn
        return state.layout is not self._view.layout or min(state.last_txn, reached) > self.txn

    def _give_back(self, left: list[RowRange], piece: RowRange, last: bytes) -> None:
        """The rest of a piece, of which everything up to a row has been read."""
        if self._spec.reverse:
            if piece.start < last:
                left.append(RowRange(piece.start, last))
        elif piece.end is None or last + b"\x00" < piece.end:
            left.insert(0, RowRange(last + b"\x00", piece.end))

    def _read(self, rows: RowRange) -> Iterator[Selection | Block]:
        """The visible cells of a piece; a block that is visible as it stands is not touched."""
        for read, streams in self._open(rows):
            self.counters.tablets += 1
            if len(streams) == 1 and self._takes_all:
                yield from _clean_first(whole_rows(streams[0]), read)
            else:
                merge = merge_streams_reversed if self._spec.reverse else merge_streams
                yield from merge(streams, read_rule(read))

    def _open(self, rows: RowRange) -> list[tuple[ReadView, list[Iterable[Source]]]]:
        """The streams of each tablet in a piece, with all their files open.

        Files that are open can be read to their end. If the collector took one before, there is a
        newer layout that does without it.
        """
        while True:
            self._view, self.txn = self._views((rows,))
            try:
                return self._streams(self._view, rows)
            except NotFound as error:
                self.state.check_served()
                if self.state.layout is self._view.layout:
                    raise missing_file(self.state.name, error) from error

    def _streams(
        self, view: TableView, rows: RowRange
    ) -> list[tuple[ReadView, list[Iterable[Source]]]]:
        read = read_view(view.layout, self._spec, self.txn)
        if read.columns.is_empty:
            return []
        opened = []
        # The piece was cut along a layout that may have changed since: ask for all tablets in it.
        for tablet in self._ordered(view.layout.tablets.overlapping(rows)):
            inside = rows.intersect(tablet.rows)
            assert inside is not None
            streams = tablet_streams(
                self._engine.fragments,
                restrict(tablet.references, inside, read.columns),
                memory_blocks(view.memory, inside, self.txn),
                read.columns,
                self.counters,
                reverse=self._spec.reverse,
                wanted=self._spec.columns,
            )
            opened.append((read, streams))
        return opened

    def _ordered(self, tablets: tuple[TabletConfig, ...]) -> tuple[TabletConfig, ...]:
        return tablets[::-1] if self._spec.reverse else tablets

    def _batches_of(self, found: Selection | Block) -> Iterator[pa.RecordBatch]:
        if isinstance(found, Block):
            self.counters.cells_returned += found.count
            yield found.batch
            return
        kept, rows = filter_cells(found, self._spec, self._rows_left)
        if not kept.cells:
            return
        if self._rows_left is not None:
            self._rows_left -= rows
        self.counters.cells_returned += kept.cells
        for block in kept.gather():
            yield block.batch


def _clean_first(stream: Iterator[Source], read: ReadView) -> Iterator[Selection | Block]:
    """A stream that has the rows to itself: its blocks, as long as all their cells are visible."""
    for source in stream:
        whole = all(family in source.columns for family in source.block.families)
        if source.txn is not None or not (whole and read.passes(source)):
            yield from merge_streams([chain([source], stream)], read_rule(read))
            return
        yield source.block
