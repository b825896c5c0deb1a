"""The embedded store as the storage benchmark uses it: one table, and how work is given to it."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.storage_data import FAMILY, Batch
from stele.client.backend import Pending, TableBackend
from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.errors import Throttled
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Op
from stele.model.groups import Group
from stele.model.predicates import ScanSpec
from stele.model.schema import Schema
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions

CACHE_BYTES = 1 << 30
IN_FLIGHT = 8
REFUSED_PAUSE_S = 0.001
"""Asking again at once would take a processor from the flush that is to make room."""
TABLE = "bench"
FLUSHED_BY_HAND = FlushLimits(memory_bytes=1 << 33, budget_bytes=1 << 34)
"""A store that does not flush by itself holds all that is written between two flushes."""


@dataclass(frozen=True)
class Options:
    """What is asked of a run."""

    cells: int
    rounds: int
    directory: Path


class Stele:
    """One embedded store with one table, doing the benchmark's work."""

    def __init__(
        self, directory: Path, *, background: bool = True, options: EngineOptions | None = None
    ):
        self.directory = directory
        flush = FlushLimits() if background else FLUSHED_BY_HAND
        self.backend: EmbeddedBackend = open_embedded(
            str(directory),
            options or EngineOptions(cache_bytes=CACHE_BYTES, background=background, flush=flush),
        )
        is_new = TABLE not in [entry.name for entry in self.backend.tables()]
        schema = Schema([Group("default")])
        self.table: TableBackend = (
            self.backend.create_table(TABLE, schema) if is_new else self.backend.table(TABLE)
        )

    def write(self, work: Iterable[pa.RecordBatch]) -> None:
        """Batches in flight, all durable in the end."""
        waiting: deque[Pending] = deque()
        for batch in work:
            waiting.append(self._start(batch, waiting))
            if len(waiting) == IN_FLIGHT:
                waiting.popleft().wait()
        for pending in waiting:
            pending.wait()

    def _start(self, batch: pa.RecordBatch, waiting: deque[Pending]) -> Pending:
        """Apply a batch; while memory is full, what is on its way goes first."""
        while True:
            try:
                pending = self.table.apply(batch)
            except Throttled:
                if waiting:
                    waiting.popleft().wait()
                else:
                    time.sleep(REFUSED_PAUSE_S)
                continue
            pending.then(lambda _error: None)
            return pending

    def scan(self) -> int:
        return sum(batch.num_rows for batch in self.table.scan(ScanSpec()))

    def fragment_paths(self) -> list[Path]:
        names = {name for tablet in self.table.tablets() for name in tablet.details["files"]}
        return [self.directory / "fragments" / name for name in sorted(names)]

    def disk_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.fragment_paths())

    def close(self) -> None:
        self.backend.close()


def to_arrow(batch: Batch) -> pa.RecordBatch:
    """A batch of the benchmark's data as a request."""
    count = batch.cells
    family = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int16)), [FAMILY])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.rows, pa.binary()),
            family,
            pa.array(batch.qualifiers, pa.binary()),
            pa.array(np.full(count, TIMESTAMP_MAX, np.int64)),
            pa.array(np.full(count, int(Op.PUT), np.int8)),
            pa.array(batch.values, pa.binary()),
        ],
        schema=MUTATIONS,
    )


def drop_from_page_cache(directory: Path) -> None:
    """Write back all files below a directory and have the kernel forget their pages."""
    for path in directory.rglob("*"):
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
