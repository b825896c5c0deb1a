"""Scans: ranges of rows as a stream of Arrow batches, all at one txn.

A scan goes through its ranges tablet by tablet. When it reaches a tablet it takes the table's
newest view, so splits, joins, flushes and compactions between two tablets go unnoticed: whatever
the layout, a read at the same txn sees the same cells. Within a tablet one block of each source is
in memory, however large the tablet.
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
from stele.kernels.stream import merge_streams
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


class TableScan:
    """Implements ``CellStream``. For one thread at a time."""

    def __init__(
        self,
        engine: Engine,
        state: TableState,
        spec: ScanSpec,
        txn: int,
        on_close: Callable[[], None] = lambda: None,
    ):
        self.txn = txn
        self._engine = engine
        self._state = state
        self._spec = spec
        self._on_close = on_close
        self._closed = False
        self._counters = ReadCounters()
        self._rows_left = spec.limit
        self._takes_all = spec == ScanSpec(ranges=spec.ranges, versions=spec.versions, at=spec.at)
        """Nothing but rows, versions and time decides what is read."""
        self._batches = self._run()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
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
        counters = self._counters
        return {
            "table": self._state.name,
            "txn": self.txn,
            "tablets": counters.tablets,
            "memory_blocks": counters.memory_blocks,
            "fragments": sorted(counters.fragments),
            "blocks_from_cache": counters.blocks_from_cache,
            "blocks_from_disk": counters.blocks_from_disk,
            "cells": counters.cells_returned,
        }

    def _run(self) -> Generator[pa.RecordBatch, None, None]:
        for rows in self._pieces():
            for found in self._read(rows):
                if isinstance(found, Block):
                    self._counters.cells_returned += found.count
                    yield found.batch
                else:
                    yield from self._batches_of(found)
                if self._rows_left == 0:
                    return

    def _pieces(self) -> Iterator[RowRange]:
        """What to read next, each piece within one tablet of the newest layout."""
        ranges = list(self._spec.ranges)
        while ranges:
            wanted = ranges.pop() if self._spec.reverse else ranges.pop(0)
            tablets = self._state.layout.tablets.overlapping(wanted)
            piece = wanted.intersect(self._ordered(tablets)[0].rows)
            assert piece is not None
            if self._spec.reverse and wanted.start < piece.start:
                ranges.append(RowRange(wanted.start, piece.start))
            if not self._spec.reverse and piece.end is not None and piece.end != wanted.end:
                ranges.insert(0, RowRange(piece.end, wanted.end))
            yield piece

    def _read(self, rows: RowRange) -> Iterator[Selection | Block]:
        """The visible cells of a piece; a block that is visible as it stands is not touched."""
        for read, streams in self._open(rows):
            self._counters.tablets += 1
            if len(streams) == 1 and self._takes_all:
                yield from _clean_first(iter(streams[0]), read)
            else:
                merge = merge_streams_reversed if self._spec.reverse else merge_streams
                yield from merge(streams, read_rule(read))

    def _open(self, rows: RowRange) -> list[tuple[ReadView, list[Iterable[Source]]]]:
        """The streams of each tablet in a piece, with all their files open.

        Files that are open can be read to their end. If the collector took one before, there is a
        newer layout that does without it.
        """
        while True:
            view = self._state.view()
            try:
                return self._streams(view, rows)
            except NotFound as error:
                if self._state.layout is view.layout:
                    raise missing_file(self._state.name, error) from error

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
                self._counters,
                reverse=self._spec.reverse,
            )
            opened.append((read, streams))
        return opened

    def _ordered(self, tablets: tuple[TabletConfig, ...]) -> tuple[TabletConfig, ...]:
        return tablets[::-1] if self._spec.reverse else tablets

    def _batches_of(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        kept, rows = filter_cells(selection, self._spec, self._rows_left)
        if not kept.cells:
            return
        if self._rows_left is not None:
            self._rows_left -= rows
        self._counters.cells_returned += kept.cells
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
