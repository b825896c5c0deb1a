"""Sorting wide rows by key within a bound of memory: sorted runs on disk, merged when read.

Batches are gathered until they reach the bound; then they are sorted and written as one run, an
Arrow file in a directory of the task. Reading merges the runs a batch of each at a time: everything
up to the smallest of their last keys can be handed on, sorted. What fits in memory stays there.
It can be read more than once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

ROW = "row"

MEMORY_BYTES_MAX = 256 << 20
"""What a task holds before it writes a run. Sorting needs as much again."""


@dataclass
class RowSorter:
    """For one thread. ``directory`` is the task's own, and goes with it."""

    directory: str
    batch_rows: int
    """Rows of a batch that is read: rows of one key are never divided, so it may be more."""
    memory_bytes_max: int = MEMORY_BYTES_MAX
    rows: int = 0
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _held_bytes: int = 0
    _runs: list[str] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows in any order."""
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes > self.memory_bytes_max:
            self._spill()

    def _spill(self) -> None:
        path = os.path.join(self.directory, f"run-{len(self._runs)}.arrow")
        table = _sorted(self._held)
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=self.batch_rows)
        self._runs.append(path)
        self._held, self._held_bytes = [], 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in order, those of one key in one batch."""
        streams = [_run(path) for path in self._runs]
        if self._held:
            self._held = [_sorted(self._held).combine_chunks().to_batches()[0]]
            streams.append(_slices(self._held[0], self.batch_rows))
        return _whole_keys(_merged(streams))


def _sorted(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(list(batches))
    return table.take(pc.sort_indices(table.column(ROW)))


def _run(path: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))


def _last(batch: pa.RecordBatch) -> bytes:
    row: bytes = batch.column(ROW)[-1].as_py()
    return row


def _merged(streams: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Sorted streams as one."""
    if len(streams) == 1:
        yield from streams[0]
        return
    heads = [(head, stream) for stream in streams if (head := next(stream, None)) is not None]
    while heads:
        bound = min(_last(head) for head, _ in heads)
        due, left = [], []
        for head, stream in heads:
            below = pc.sum(pc.less_equal(head.column(ROW), pa.scalar(bound, pa.binary()))).as_py()
            due.append(head.slice(0, below))
            following = head.slice(below) if below < head.num_rows else next(stream, None)
            if following is not None:
                left.append((following, stream))
        heads = left
        yield from _sorted(due).combine_chunks().to_batches()


def _whole_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, cut only where a key ends."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        last = _last(batch)
        cut = pc.index(batch.column(ROW), pa.scalar(last, pa.binary())).as_py()
        if cut:
            yield _joined([*kept, batch.slice(0, cut)])
            kept = []
        elif kept and _last(kept[-1]) != last:
            yield _joined(kept)
            kept = []
        kept.append(batch.slice(cut))
    if kept:
        yield _joined(kept)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
