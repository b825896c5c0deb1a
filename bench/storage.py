"""The embedded store against RocksDB, the same work in one run, and against its limits.

    python -m bench.storage [--cells 5000000] [--rounds 2] [--directory DIR] [--json FILE]

RocksDB is given its best (see ``rocksdb_peer``) and both have the same cache. Each work is done by
both in turn, ``--rounds`` times, and the best round of each counts: a busy neighbour can only
make a round slower. Limits are the disk's bare ``fdatasync`` and pyarrow streaming the same files.
A ratio above 1 is better than what it is held against, except where the table says "at most".
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Row, faster, report, seconds, slower
from bench.rocksdb_peer import RocksPeer, cell_key
from bench.storage_data import FAMILY, Batch, batches, row_numbers
from stele.client.backend import Pending, TableBackend
from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Op
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.schema import Schema
from stele.tablet.options import EngineOptions

CACHE_BYTES = 1 << 30
IN_FLIGHT = 8
POINT_THREADS = 16
POINT_PUTS = 200
POINT_GETS = 20_000
LIST_KEYS = 1_000
OVERLAPPING = 8
"""Fragments over the same rows in the merge and compaction works."""


@dataclass(frozen=True)
class Options:
    cells: int
    rounds: int
    directory: Path


class Stele:
    """One embedded store with one table, doing the benchmark's work."""

    def __init__(self, directory: Path, *, background: bool = True):
        options = EngineOptions(cache_bytes=CACHE_BYTES, background=background)
        self.directory = directory
        self.backend: EmbeddedBackend = open_embedded(str(directory), options)
        schema = Schema([Group("default")])
        self.table: TableBackend = self.backend.create_table("bench", schema)

    def write(self, work: Iterable[pa.RecordBatch]) -> None:
        """Batches in flight, all durable in the end."""
        waiting: deque[Pending] = deque()
        for batch in work:
            pending = self.table.apply(batch)
            pending.then(lambda _error: None)
            waiting.append(pending)
            if len(waiting) == IN_FLIGHT:
                waiting.popleft().wait()
        for pending in waiting:
            pending.wait()

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


def fdatasync_us(directory: Path, times: int = 200) -> float:
    """The median time of a bare small write made durable."""
    path = directory / "sync.probe"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try:
        samples = []
        for _ in range(times):
            start = time.perf_counter()
            os.write(descriptor, bytes(256))
            os.fdatasync(descriptor)
            samples.append(time.perf_counter() - start)
        return statistics.median(samples) * 1e6
    finally:
        os.close(descriptor)
        path.unlink()


def bulk_rows(options: Options) -> list[Row]:
    """Bulk writes, sorted and in random order, to flushed."""
    rows = []
    for name, wanted, in_order in (("sorted", 1.8, True), ("random", 3.0, False)):
        numbers = row_numbers(options.cells // 4)
        work = list(batches(np.sort(numbers) if in_order else numbers))
        arrow = [to_arrow(batch) for batch in work]
        ours, theirs = [], []
        for turn in range(options.rounds):
            theirs.append(_bulk_rocks(options.directory / f"rocks-{name}-{turn}", work))
            ours.append(_bulk_stele(options.directory / f"stele-{name}-{turn}", arrow))
        cells = sum(batch.cells for batch in work)
        rows.append(
            faster(
                f"bulk write, {name} rows, batches of 1,000, 8 in flight, to flushed",
                cells / min(ours),
                cells / min(theirs),
                "cells/s",
                wanted,
            )
        )
    return rows


def _bulk_rocks(path: Path, work: list[Batch]) -> float:
    peer = RocksPeer(path, CACHE_BYTES)

    def write() -> None:
        for number, batch in enumerate(work):
            peer.write_batch(batch, 1_000_000 + number)
        peer.flush()

    took = seconds(write)
    peer.close()
    shutil.rmtree(path, ignore_errors=True)
    return took


def _bulk_stele(path: Path, work: list[pa.RecordBatch]) -> float:
    store = Stele(path)

    def write() -> None:
        store.write(work)
        store.table.flush()

    took = seconds(write)
    store.close()
    shutil.rmtree(path, ignore_errors=True)
    return took


def point_write_rows(options: Options) -> list[Row]:
    """One-cell durable puts: alone, and from many threads."""
    store = Stele(options.directory / "stele-points")
    peer = RocksPeer(options.directory / "rocks-points", CACHE_BYTES)

    def put_ours(row: bytes) -> None:
        mutations = MutationBatch()
        mutations.put(row, FAMILY, b"age", bytes(100))
        store.table.apply(mutations).wait()

    def put_theirs(row: bytes) -> None:
        peer.put(row, b"age", bytes(100), 1)

    ours, theirs, serial, bare = [], [], [], []
    for turn in range(options.rounds + 1):
        theirs.append(_from_threads(put_theirs, f"t{turn}"))
        ours.append(_from_threads(put_ours, f"o{turn}"))
        bare.append(fdatasync_us(options.directory))
        keys = [b"s%d.%d" % (turn, number) for number in range(POINT_PUTS)]
        serial.append(statistics.median(seconds(partial(put_ours, key)) for key in keys) * 1e6)
    store.close()
    peer.close()
    best = min(range(len(bare)), key=lambda turn: serial[turn] / bare[turn])
    return [
        faster("one-cell durable puts, 16 threads", max(ours), max(theirs), "puts/s", 2.7),
        slower(
            "one-cell durable put, serial p50, against one fdatasync",
            serial[best],
            bare[best],
            "us",
            1.5,
        ),
    ]


def _from_threads(put: Callable[[bytes], None], prefix: str) -> float:
    def work(thread: int) -> None:
        for number in range(POINT_PUTS):
            put(b"%s.%d.%d" % (prefix.encode(), thread, number))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(POINT_THREADS)]

    def run() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return POINT_THREADS * POINT_PUTS / seconds(run)


def read_rows(options: Options) -> list[Row]:
    """Point reads and scans over one clean fragment, and over many overlapping ones."""
    numbers = row_numbers(options.cells // 4)
    sorted_work = list(batches(np.sort(numbers)))
    peer = RocksPeer(options.directory / "rocks-read", CACHE_BYTES)
    for number, batch in enumerate(sorted_work):
        peer.write_batch(batch, 1_000_000 + number)
    peer.flush()
    peer.compact()
    peer.warm()
    store = Stele(options.directory / "stele-read", background=False)
    store.write(to_arrow(batch) for batch in sorted_work)
    store.table.compact()
    rows = _scan_rows(options, store, peer, sum(batch.cells for batch in sorted_work))
    rows += _point_rows(options, store, peer, sorted_work)
    rows.append(
        slower(
            "bytes on disk, of one cell",
            store.disk_bytes() / options.cells,
            peer.disk_bytes() / options.cells,
            "B/cell",
            0.9,
        )
    )
    peer.close()
    store.close()
    return rows


def _scan_rows(options: Options, store: Stele, peer: RocksPeer, cells: int) -> list[Row]:
    ours, tuples, arrow, raw = [], [], [], []
    for _ in range(options.rounds + 1):
        ours.append(seconds(store.scan))
        tuples.append(seconds(lambda: deque(peer.items(), maxlen=0)))
        arrow.append(seconds(lambda: deque(peer.to_arrow(), maxlen=0)))
        raw.append(seconds(lambda: raw_scan(store.fragment_paths())))
    rate = cells / min(ours)
    name = "scan to Arrow, one clean fragment, against"
    return [
        faster(f"{name} RocksDB to tuples", rate, cells / min(tuples), "cells/s", 3.0),
        faster(f"{name} RocksDB into Arrow", rate, cells / min(arrow), "cells/s", 4.5),
        faster(f"{name} raw pyarrow", rate, cells / min(raw), "cells/s", 1.0),
    ]


def raw_scan(paths: Iterable[Path]) -> int:
    """pyarrow streaming the same files."""
    total = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(65_536, use_threads=True):
                total += batch.num_rows
    return total


def _point_rows(options: Options, store: Stele, peer: RocksPeer, work: list[Batch]) -> list[Row]:
    dice = np.random.default_rng(5)
    chosen = [int(n) for n in dice.integers(0, len(work), POINT_GETS)]
    keys = [work[n].rows[(n % 250) * 4] for n in chosen]
    theirs = [
        cell_key(key, b"age", 1_000_000 + n, 1_000_000 + n)
        for key, n in zip(keys, chosen, strict=True)
    ]
    spec = CellSpec()
    for key in keys:
        store.table.read_row(key, spec)
    hot, bare, many, lists = [], [], [], []
    listed = ReadSpec(rows=tuple(sorted(set(keys))[:LIST_KEYS]))
    listed_theirs = theirs[:LIST_KEYS]
    for _ in range(options.rounds + 1):
        hot.append(seconds(lambda: [store.table.read_row(key, spec) for key in keys]) / len(keys))
        bare.append(seconds(lambda: [peer.get(key) for key in theirs]) / len(keys))
        many.append(seconds(lambda: store.table.read_rows(listed)))
        lists.append(seconds(lambda: peer.get_list(listed_theirs)))
    return [
        faster(
            "hot point get, a whole row, 1 fragment", 1 / min(hot), 1 / min(bare), "gets/s", 0.25
        ),
        faster(
            "get_many of 1,000 rows, hot, 1 fragment", 1 / min(many), 1 / min(lists), "calls/s", 1.3
        ),
    ]


def merge_rows(options: Options) -> list[Row]:
    """Scans and compactions of overlapping fragments."""
    store = Stele(options.directory / "stele-merge", background=False)
    peer = RocksPeer(options.directory / "rocks-merge", CACHE_BYTES)
    numbers = row_numbers(options.cells // 4)
    parts = np.array_split(numbers, OVERLAPPING)
    txn = 1_000_000
    for part in parts:
        work = list(batches(np.sort(part)))
        store.write(to_arrow(batch) for batch in work)
        store.table.flush()
        for batch in work:
            txn += 1
            peer.write_batch(batch, txn)
        peer.flush()
    cells = len(numbers) * 4
    scans = [seconds(store.scan) for _ in range(options.rounds + 1)]
    raws = [seconds(lambda: raw_scan(store.fragment_paths())) for _ in range(options.rounds + 1)]
    compacted_theirs = seconds(peer.compact)
    compacted_ours = seconds(store.table.compact)
    peer.close()
    store.close()
    return [
        faster(
            f"scan to Arrow, {OVERLAPPING} overlapping fragments, against raw pyarrow",
            cells / min(scans),
            cells / min(raws),
            "cells/s",
            0.8,
        ),
        faster(
            f"compaction of {OVERLAPPING} overlapping fragments",
            cells / compacted_ours,
            cells / compacted_theirs,
            "cells/s",
            2.0,
        ),
    ]


def rows(options: Options) -> list[Row]:
    """Everything."""
    return [
        *bulk_rows(options),
        *point_write_rows(options),
        *read_rows(options),
        *merge_rows(options),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cells", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="write the rows here, one JSON object a line")
    given = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="stele-bench-", dir=given.directory))
    try:
        found = rows(Options(given.cells, given.rounds, directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report(found, given.json)


if __name__ == "__main__":
    main()
