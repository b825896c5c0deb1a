"""The embedded store against RocksDB, the same work in one run, and against its limits.

    python -m bench.storage [--cells 5000000] [--rounds 2] [--only bulk,point-writes]
                            [--directory DIR] [--json FILE]

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
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Row, best_of, faster, report, seconds, slower
from bench.rocksdb_peer import RocksPeer
from bench.storage_data import FAMILY, Batch, batches, row_numbers
from bench.storage_memory import memory_rows
from bench.storage_points import first_batch_rows, point_rows
from bench.storage_store import CACHE_BYTES, Options, Stele, to_arrow
from stele.model.mutations import MutationBatch

POINT_THREADS = 16
POINT_PUTS = 1_000
OVERLAPPING = 8
"""Fragments over the same rows in the merge and compaction works."""


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


def scan_rows(options: Options) -> list[Row]:
    """Scans of one clean fragment, and its size."""
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


def merge_rows(options: Options) -> list[Row]:
    """Scans and compactions of overlapping fragments; each round has stores of its own.

    Neither side compacts while it is filled: both begin with files that overlap.
    """
    cells = options.cells // 4 * 4
    scans, raws, ours, theirs = [], [], [], []
    for turn in range(options.rounds):
        store = Stele(options.directory / f"stele-merge-{turn}", background=False)
        peer = RocksPeer(options.directory / f"rocks-merge-{turn}", CACHE_BYTES, background=False)
        _fill_overlapping(options, store, peer)
        scan, raw = best_of(3, store.scan, partial(raw_scan, store.fragment_paths()))
        scans.append(scan)
        raws.append(raw)
        theirs.append(seconds(peer.compact))
        ours.append(seconds(store.table.compact))
        for one in (peer, store):
            one.close()
        for path in (peer.path, store.directory):
            shutil.rmtree(path, ignore_errors=True)
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
            cells / min(ours),
            cells / min(theirs),
            "cells/s",
            2.0,
        ),
    ]


def _fill_overlapping(options: Options, store: Stele, peer: RocksPeer) -> None:
    txn = 1_000_000
    for part in np.array_split(row_numbers(options.cells // 4), OVERLAPPING):
        work = list(batches(np.sort(part)))
        store.write(to_arrow(batch) for batch in work)
        store.table.flush()
        for batch in work:
            txn += 1
            peer.write_batch(batch, txn)
        peer.flush()


WORKS: dict[str, Callable[[Options], list[Row]]] = {
    "bulk": bulk_rows,
    "point-writes": point_write_rows,
    "scans": scan_rows,
    "point-reads": point_rows,
    "merges": merge_rows,
    "first-batch": first_batch_rows,
    "memory": memory_rows,
}


def rows(options: Options, works: Iterable[str]) -> list[Row]:
    """The rows of some works; the files of each are gone before the next begins."""
    found = []
    for name in works:
        directory = options.directory / name
        directory.mkdir()
        found += WORKS[name](replace(options, directory=directory))
        shutil.rmtree(directory, ignore_errors=True)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cells", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", help=f"of {','.join(WORKS)}", default=",".join(WORKS))
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="write the rows here, one JSON object a line")
    given = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="stele-bench-", dir=given.directory))
    try:
        found = rows(Options(given.cells, given.rounds, directory), given.only.split(","))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report(found, given.json)


if __name__ == "__main__":
    main()
