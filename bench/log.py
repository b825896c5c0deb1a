"""The log against the disk's bare fdatasync, in the same minute on the same disk.

    python -m bench.log [--seconds 2] [--directory DIR]

Bare: one ``write`` and one ``fdatasync`` after the other, of as many bytes as the log writes for
the same commit. What is compared takes turns, so that a busy neighbour disturbs both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import Row, faster, report, slower
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom
from stele.kernels.block import Block
from stele.kernels.row_records import encode_record
from stele.model.cells import Cell, Op, cells_to_batch
from stele.storage.group_commit import GroupCommit, LogEvents
from stele.storage.log_format import ENTRY_HEADER_BYTES
from stele.storage.log_parts import batch_commit, encode_block, encode_body, rows_commit
from stele.storage.log_queue import Ticket
from stele.storage.log_seal import seal_fence
from stele.storage.log_writer import LogWriter

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TABLE = "t00000001"
WRITERS = 64
ROUNDS = 5
BARE_SECONDS = 0.1
VALUE = bytes(range(50)) * 2
BATCH_CELLS = 1_000
BATCHES_IN_FLIGHT = 8


@dataclass(frozen=True)
class Options:
    """What to measure with."""

    seconds: float = 2.0
    """For each thing measured."""
    directory: Path | None = None
    """On the disk to measure."""


def record(txn: int) -> bytes:
    return encode_record(b"user%012d" % txn, b"info", b"mail", txn, txn, Op.PUT, VALUE)


def batch() -> tuple[ReadableBuffer, ...]:
    cells = [
        Cell(b"user%012d" % (number // 4), "info", b"q%d" % (number % 4), 1, VALUE)
        for number in range(BATCH_CELLS)
    ]
    return encode_block(Block.from_batch(cells_to_batch(cells)))


def entry_bytes(size: int) -> int:
    """How much the log writes for a small commit of that size."""
    return ENTRY_HEADER_BYTES + encode_body([rows_commit(TABLE, 1, [bytes(size)])], 0).size


@contextmanager
def new_log(directory: Path) -> Iterator[GroupCommit]:
    """A log in a directory of its own, with the fence it has in a server."""
    root = Path(tempfile.mkdtemp(prefix="log-", dir=directory))
    fs = PosixFileSystem(str(root))
    log = GroupCommit(
        LogWriter(fs, "log", "bench", SystemRandom()),
        LogEvents(fence=seal_fence(fs, "log")),
        clock=SystemClock(),
    )
    try:
        yield log
    finally:
        log.close()
        shutil.rmtree(root)


class Txns:
    """Numbers and queues commits in one short section, as an engine does."""

    def __init__(self, log: GroupCommit) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._last = 0

    def append(self, *callbacks: Callable[[Ticket], None]) -> Ticket:
        with self._lock:
            self._last += 1
            commit = rows_commit(TABLE, self._last, (record(self._last),))
            return self._log.append(commit, *callbacks, will_wait=True)


class Bare:
    """A file that is written and synced without anything around it."""

    def __init__(self, directory: Path, size: int) -> None:
        self._path = directory / "bare"
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        self._data = os.urandom(size)

    def write(self) -> float:
        """Write and sync once; how many seconds it took."""
        start = time.perf_counter()
        os.write(self._descriptor, self._data)
        os.fdatasync(self._descriptor)
        return time.perf_counter() - start

    def rate(self, seconds: float) -> float:
        """How many fit into a second."""
        times = [self.write()]
        while sum(times) < seconds:
            times.append(self.write())
        return len(times) / sum(times)

    def close(self) -> None:
        os.close(self._descriptor)
        self._path.unlink()


def time_serial(directory: Path, bare: Bare, seconds: float) -> tuple[float, float]:
    """Median seconds of a bare sync, and of a lone writer's commit; the two take turns."""
    bare_times, times = [], []
    with new_log(directory) as log:
        txns = Txns(log)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            bare_times.append(bare.write())
            start = time.perf_counter()
            log.wait(txns.append())
            times.append(time.perf_counter() - start)
    return statistics.median(bare_times), statistics.median(times)


def rate_threads(directory: Path, seconds: float) -> float:
    """Commits a second of 64 threads that wait for each of theirs."""
    with new_log(directory) as log:
        txns = Txns(log)
        counts = [0] * WRITERS
        end = time.perf_counter() + seconds

        def work(number: int) -> None:
            while time.perf_counter() < end:
                log.wait(txns.append())
                counts[number] += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(WRITERS)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.perf_counter() - start)


def rate_callbacks(directory: Path, seconds: float) -> float:
    """Commits a second of 64 writers that are told by callbacks, without threads of their own."""
    with new_log(directory) as log:
        txns = Txns(log)
        count = 0
        start = time.perf_counter()
        end = start + seconds

        def again(_ticket: Ticket) -> None:
            nonlocal count
            count += 1
            if time.perf_counter() < end:
                txns.append(again)

        for _ in range(WRITERS):
            txns.append(again)
        log.drive()
        return count / (time.perf_counter() - start)


def rate_batches(directory: Path, seconds: float, in_flight: int) -> float:
    """Cells a second in batches of 1,000, so many of them queued at a time."""
    content = batch()
    with new_log(directory) as log:
        txn = 0
        start = time.perf_counter()
        while time.perf_counter() < start + seconds:
            for _ in range(in_flight):
                txn += 1
                ticket = log.append(batch_commit(TABLE, txn, content), will_wait=True)
            log.wait(ticket)
        return txn * BATCH_CELLS / (time.perf_counter() - start)


def against(bare: Bare, rate: Callable[[], float], unit_of_bare: int = 1) -> tuple[float, float]:
    """A rate, and the bare one around it: median of a few rounds by their ratio."""
    rounds = []
    for _ in range(ROUNDS):
        before = bare.rate(BARE_SECONDS)
        reached = rate()
        around = unit_of_bare * (before + bare.rate(BARE_SECONDS)) / 2
        rounds.append((reached, around))
    return sorted(rounds, key=lambda pair: pair[0] / pair[1])[ROUNDS // 2]


def measure(directory: Path, seconds: float) -> list[Row]:
    """All rows. What is compared takes turns, so that a busy neighbour disturbs both."""
    share = seconds / ROUNDS
    bare = Bare(directory, entry_bytes(len(record(1))))
    sync, serial = time_serial(directory, bare, seconds)
    threads = against(bare, lambda: rate_threads(directory, share))
    callbacks = against(bare, lambda: rate_callbacks(directory, share))
    bare.close()
    bare = Bare(directory, batch_commit(TABLE, 1, batch()).size)
    one = against(bare, lambda: rate_batches(directory, share, 1), BATCH_CELLS)
    many = against(bare, lambda: rate_batches(directory, share, BATCHES_IN_FLIGHT), BATCH_CELLS)
    bare.close()

    return [
        slower("fdatasync p50, against itself", 1e6 * sync, 1e6 * sync, "µs"),
        slower(
            "one-cell commit p50, one writer, against fdatasync", 1e6 * serial, 1e6 * sync, "µs"
        ),
        faster("one-cell commits, 64 writers by events, against fdatasync", *callbacks, "/s", 10.0),
        faster("one-cell commits, 64 writers, a thread each, against fdatasync", *threads, "/s"),
        faster("batches of 1,000 cells, one at a time, against fdatasync", *one, "cells/s"),
        faster("batches of 1,000 cells, 8 in flight, against fdatasync", *many, "cells/s"),
    ]


def rows(options: Options) -> list[Row]:
    """Measure everything in a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="bench-log-", dir=options.directory))
    try:
        return measure(directory, options.seconds)
    finally:
        shutil.rmtree(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=Options.seconds)
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    report(rows(Options(arguments.seconds, arguments.directory)), None)


if __name__ == "__main__":
    main()
