"""Sorting wide rows by key within a bound of memory: sorted runs on disk, merged when read.

Batches are gathered until they reach the bound; then they are sorted and written as one run, an
Arrow file in a directory of the task. Reading merges the runs a batch of each at a time, a few
megabytes: everything up to the smallest of their last keys can be handed on, sorted. What fits in
memory stays there, and only its order is computed: rows are moved once, when they are read, a batch
at a time. It can be read more than once, and of some columns only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import OutOfSpace
from stele.spark.batch_pieces import PIECE_BYTES_MAX, pieces
from stele.spark.row_order import row_order

ROW = "row"

MEMORY_BYTES_MAX = 256 << 20
"""What a task holds before it writes a run. Sorting needs as much again."""


@dataclass
class RowSorter:
    """For one thread. ``directory`` is the task's own, and goes with it."""

    directory: str
    batch_rows: int
    """Rows of a batch that is read, fewer if they are large; rows of one key are never divided."""
    memory_bytes_max: int = MEMORY_BYTES_MAX
    rows: int = 0
    names: tuple[str, ...] = ()
    """Of the columns, once there are rows."""
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _held_bytes: int = 0
    _ordered: _Ordered | None = None
    _runs: list[str] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows in any order. All come before the first is read."""
        assert self._ordered is None, "rows are read already"
        if not batch.num_rows:
            return
        if self._held and self._held_bytes + batch.nbytes > self.memory_bytes_max:
            self._spill()
        self.rows += batch.num_rows
        self.names = tuple(batch.schema.names)
        self._held.append(batch)
        self._held_bytes += batch.nbytes

    def _spill(self) -> None:
        path = os.path.join(self.directory, f"run-{len(self._runs)}.arrow")
        ordered = _Ordered.of(self._held)
        self._held, self._held_bytes = [], 0
        try:
            self._write(path, ordered)
        except OSError as error:
            raise OutOfSpace(
                f"a task cannot sort its rows in {self.directory}: {error}; make room there, or "
                f"point TMPDIR of the executors elsewhere"
            ) from error
        self._runs.append(path)

    def _write(self, path: str, ordered: _Ordered) -> None:
        schema = ordered.batch.schema
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in ordered.slices(self.names, self.batch_rows):
                writer.write_batch(batch)

    def batches(self, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """All rows in order, those of one key in one batch; of ``row`` and some columns, or all."""
        names = list(columns or self.names)
        if self._held:
            self._ordered = _Ordered.of(self._held)
            self._held = []
        streams = [_run(path, names) for path in self._runs]
        if self._ordered is not None:
            streams.append(self._ordered.slices(names, self.batch_rows))
        merged = (piece for batch in _merged(streams) for piece in pieces(batch, self.batch_rows))
        return _whole_keys(merged)


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Rows and the order in which they are read."""

    batch: pa.RecordBatch
    order: pa.Array

    @staticmethod
    def of(batches: Sequence[pa.RecordBatch]) -> _Ordered:
        whole = _joined(batches)
        return _Ordered(whole, pa.array(row_order(whole.column(ROW))))

    def slices(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        chosen = self.batch.select(list(columns))
        row_bytes = chosen.nbytes // max(1, chosen.num_rows) + 1
        step = max(1, min(rows, PIECE_BYTES_MAX // row_bytes))
        for at in range(0, len(self.order), step):
            yield from pieces(chosen.take(self.order.slice(at, step)), step)


def _run(path: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number).select(columns)


def _first(batch: pa.RecordBatch) -> bytes:
    row: bytes = batch.column(ROW)[0].as_py()
    return row


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
        whole = _joined(due)
        yield whole.take(pa.array(row_order(whole.column(ROW))))


def _whole_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, cut only where a key ends."""
    before: pa.RecordBatch | None = None
    for batch in batches:
        if before is None:
            before = batch
            continue
        last = _last(before)
        if last != _first(batch):
            yield before
            before = batch
            continue
        cut = pc.index(before.column(ROW), pa.scalar(last, pa.binary())).as_py()
        if cut:
            yield before.slice(0, cut)
        before = _joined([before.slice(cut), batch])
    if before is not None:
        yield before


def _joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    several = list(batches)
    return several[0] if len(several) == 1 else pa.concat_batches(several)
