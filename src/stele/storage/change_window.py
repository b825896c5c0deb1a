"""A window of txns: as many mutations as memory may hold, sorted by txn.

Files hand over mutations in cell order, a feed hands them on by txn. A window takes all of them and
keeps those of the lowest txns; when it has too many, its end moves down to the middle of what it
holds, so a commit is in it as a whole or not at all. What was turned away is read again, for the
next window: there are as many passes over the files as the mutations fill windows, or twice that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from stele.model.arrays import Ints, numbers
from stele.model.cells import CELLS, cells_to_batch

CELLS_MAX = 1 << 20
"""Mutations that a window holds before its end moves down."""

BYTES_MAX = 256 * 1024 * 1024
"""Their bytes, likewise."""

BATCH_CELLS = 65_536
"""Mutations handed over at once."""


class ChangeWindow:
    """For one thread. ``until`` is the end of the window: it holds everything up to it."""

    def __init__(self, cells_max: int = CELLS_MAX, bytes_max: int = BYTES_MAX):
        self._cells_max = cells_max
        self._bytes_max = bytes_max
        self.open(0)

    def open(self, until: int) -> None:
        """Begin anew, up to a txn."""
        self.until = until
        self._parts: list[pa.RecordBatch] = []
        self._cells = self._bytes = 0

    def add(self, cells: pa.RecordBatch) -> None:
        """More mutations, in cell order after those before."""
        kept = self._below(cells)
        if not kept.num_rows:
            return
        self._parts.append(kept)
        self._cells += kept.num_rows
        self._bytes += kept.nbytes
        while self._cells > self._cells_max or self._bytes > self._bytes_max:
            self._shrink()

    def _below(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        mask = _txns(cells) <= self.until
        return cells if mask.all() else cells.filter(pa.array(mask))

    def _shrink(self) -> None:
        """Keep the lower half, or less where one commit is larger than that."""
        txns = np.concatenate([_txns(part) for part in self._parts])
        middle, highest = int(np.partition(txns, len(txns) // 2)[len(txns) // 2]), int(txns.max())
        if middle == highest:
            lower = txns[txns < highest]
            middle = int(lower.max()) if len(lower) else highest - 1
        self.until = middle
        kept = (self._below(part) for part in self._parts)
        # Copied, because what is left of a part would keep all of it in memory.
        self._parts = [part.take(pa.array(np.arange(part.num_rows))) for part in kept]
        self._cells = sum(part.num_rows for part in self._parts)
        self._bytes = sum(part.nbytes for part in self._parts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What the window holds, by rising txn and in cell order within one."""
        cells = joined(self._parts)
        self._parts = []
        order = np.argsort(_txns(cells), kind="stable")
        for start in range(0, len(order), BATCH_CELLS):
            yield cells.take(pa.array(order[start : start + BATCH_CELLS]))


def _txns(cells: pa.RecordBatch) -> Ints:
    return numbers(cells.column("txn"), np.int64)


def joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """The cells of several batches as one."""
    parts = list(batches)
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts, CELLS).unify_dictionaries().combine_chunks()
    return table.to_batches()[0] if table.num_rows else cells_to_batch(())
