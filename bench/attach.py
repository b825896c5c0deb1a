"""An attached process against the owner itself: the same work on the same data.

    python -m bench.attach [--cells 200000] [--seconds 1.0] [--json FILE]

One process owns a directory with a table of one clean fragment, this one owns a second directory
with the same table, and both are used from here, in turns: once through the socket, once directly.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import stele
from bench.harness import Row, faster, report, slower

OWNER = """
import sys, stele
db = stele.open(sys.argv[1], attach=False)
print("ready", flush=True)
sys.stdin.readline()
db.close()
"""

VALUE_BYTES = 100
TURNS = 3
SERIAL_GETS = 500
SERIAL_PUTS = 50
MANY_ROWS = 1_000


def load(path: str, cells: int) -> None:
    """A table of so many one-cell rows in one fragment."""
    values = np.random.default_rng(1).bytes(VALUE_BYTES * cells)
    offsets = pa.py_buffer(np.arange(cells + 1, dtype=np.int32) * VALUE_BYTES)
    table = pa.table(
        {
            "row": pa.array([b"%016d" % number for number in range(cells)]),
            "f:q": pa.Array.from_buffers(pa.binary(), cells, [None, offsets, pa.py_buffer(values)]),
        }
    )
    with stele.open(path) as db:
        users = db.create_table("t")
        users.write(table, row="row")
        users.compact()


def rate(work: Callable[[random.Random], object], threads: int, seconds: float) -> float:
    """Calls a second of so many threads."""
    counts = [0] * threads
    ends = time.perf_counter() + seconds

    def run(number: int) -> None:
        dice = random.Random(number)
        while time.perf_counter() < ends:
            work(dice)
            counts[number] += 1

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start)


def median_us(work: Callable[[random.Random], object], calls: int) -> float:
    """The median time of one call after the other."""
    dice, times = random.Random(7), []
    for _ in range(calls):
        start = time.perf_counter()
        work(dice)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def in_turns(
    measure: Callable[[stele.Table], float],
    tables: tuple[stele.Table, stele.Table],
    best: Callable[[list[float]], float],
) -> tuple[float, float]:
    """The best figure of each table."""
    figures: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for turns, table in zip(figures, tables, strict=True):
            turns.append(measure(table))
    return best(figures[0]), best(figures[1])


def compare(attached: stele.Table, embedded: stele.Table, cells: int, seconds: float) -> list[Row]:
    """All rows of the report."""

    def key(dice: random.Random) -> bytes:
        return b"%016d" % dice.randrange(cells)

    def get_us(table: stele.Table) -> float:
        return median_us(lambda dice: table.get(key(dice)), SERIAL_GETS)

    def put_us(table: stele.Table) -> float:
        return median_us(lambda dice: table.put(key(dice), {"f:p": b"v"}), SERIAL_PUTS)

    def gets(table: stele.Table) -> float:
        return rate(lambda dice: table.get(key(dice)), 16, seconds)

    def puts(table: stele.Table) -> float:
        return rate(lambda dice: table.put(key(dice), {"f:p": b"v"}), 16, seconds)

    def many(table: stele.Table) -> float:
        return MANY_ROWS * rate(
            lambda dice: table.get_many([key(dice) for _ in range(MANY_ROWS)]), 1, seconds
        )

    def scan(table: stele.Table) -> float:
        start = time.perf_counter()
        rows: int = table.scan(columns=["f:q"]).to_arrow().num_rows
        assert rows == cells
        return rows / (time.perf_counter() - start)

    def written(table: stele.Table) -> float:
        start = time.perf_counter()
        with table.batch() as batch:
            for number in range(20_000):
                batch.put(b"w%015d" % number, {"f:p": bytes(VALUE_BYTES)})
        return 20_000 / (time.perf_counter() - start)

    def against(
        measure: Callable[[stele.Table], float], best: Callable[[list[float]], float]
    ) -> tuple[float, float]:
        return in_turns(measure, (attached, embedded), best)

    return [
        faster("scan to Arrow", *against(scan, max), unit="cells/s"),
        faster("get_many of 1,000 rows", *against(many, max), unit="rows/s"),
        slower("hot point get, serial p50", *against(get_us, min), unit="us"),
        faster("hot point get, 16 threads", *against(gets, max), unit="1/s"),
        slower("durable put, serial p50", *against(put_us, min), unit="us"),
        faster("durable put, 16 threads", *against(puts, max), unit="1/s"),
        faster("batch of 20,000 puts", *against(written, max), unit="cells/s"),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("theirs", "ours")]
        for path in paths:
            load(path, arguments.cells)
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, paths[0]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        with stele.open(paths[0]) as far, stele.open(paths[1]) as near:
            rows = compare(far.table("t"), near.table("t"), arguments.cells, arguments.seconds)
        owner.communicate(b"\n")
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
