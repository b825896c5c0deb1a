"""The store at work, end to end: load, read, travel in time, split, kill -9, reopen, verify.

Then its files are read with other tools, and the whole pipeline of Spark jobs runs beside it.

    python -m scripts.demo [--cells 1000000] [--directory DIR] [--no-spark]

A child process writes and is killed in the middle; this process opens the directory again and
counts what was acknowledged. Everything printed has just happened.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import polars
import pyarrow as pa

import stele
from scripts.demo_spark import pipeline

COLUMNS = 4
TYPES = {"info:age": "int64", "stats:visits": "int64", "stats:score": "float64"}
ROWS_PER_CHUNK = 25_000


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Say what is being done and how long it took."""
    sys.stdout.write(f"\n== {title}\n")
    sys.stdout.flush()
    start = time.perf_counter()
    yield
    sys.stdout.write(f"   ({time.perf_counter() - start:.2f} s)\n")


def say(text: str) -> None:
    sys.stdout.write(f"   {text}\n")


def check(holds: bool, what: str) -> None:
    """The demo is also a test: it ends with an error when something is not as promised."""
    if not holds:
        sys.exit(f"demo: {what}")


def user_rows(first: int, count: int) -> pa.Table:
    """Wide rows, as a user would have them: a key and typed columns."""
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "row": pa.array([b"user%010d" % n for n in numbers], pa.binary()),
            "info:name": pa.array([b"name %d" % n for n in numbers], pa.binary()),
            "info:age": pa.array(20 + numbers % 60, pa.int64()),
            "stats:visits": pa.array(numbers * 7 % 1000, pa.int64()),
            "stats:score": pa.array(numbers / 3.0, pa.float64()),
        }
    )


def schema() -> stele.Schema:
    return stele.Schema(
        groups=[
            stele.Group("profile", families=["info"], purge="max-history=3"),
            stele.Group("rest"),
        ],
        columns=TYPES,
        history="24h",
    )


def load(users: stele.Table, cells: int) -> None:
    rows = cells // COLUMNS
    for first in range(0, rows, ROWS_PER_CHUNK):
        users.write(user_rows(first, min(ROWS_PER_CHUNK, rows - first)))


def read(users: stele.Table, cells: int) -> None:
    row = users.get(b"user0000000042")
    check(row is not None, "a row that was written is not there")
    assert row is not None
    say(f"get user0000000042 -> {row.to_dict()}")
    table = users.scan().to_arrow()
    check(table.num_rows == cells, f"{table.num_rows} cells instead of {cells}")
    say(f"scan to Arrow -> {table.num_rows:,} cells, {table.nbytes / 1e6:.0f} MB")
    some = users.scan(rows=(b"user0000000100", b"user0000000103"), columns=["info:age"])
    say(f"three rows, one column -> {[row['info:age'] for row in some]}")


def travel(users: stele.Table) -> None:
    key = b"user0000000042"
    before = users.snapshot("before the change")
    users.put(key, {"info:age": 99})
    users.delete(key, columns=["stats:visits"])
    now, then = users.get(key), users.get(key, at=before)
    assert now is not None
    assert then is not None
    say(f"now: age {now['info:age']}, visits {'stats:visits' in now}")
    say(f"at {before}: age {then['info:age']}, visits {then['stats:visits']}")
    check((now["info:age"], then["info:age"]) == (99, 62), "time travel")


def split(users: stele.Table, cells: int) -> None:
    users.compact()
    users.split(b"user%010d" % (cells // COLUMNS // 2))
    for tablet in users.tablets():
        say(f"tablet {tablet.rows}, {tablet.fragments} fragments, {tablet.size_bytes:,} bytes")
    check(len(users.tablets()) == 2, "the split is not there")
    users.compact()
    say("compacted: no file reaches over the border any more")


def victim(directory: str) -> None:
    """What the child does until it is killed: write, and say so once it is acknowledged."""
    events = stele.open(directory).table("events")
    number = 0
    while True:
        events.put(b"event%08d" % number, {"e:payload": b"x" * 100})
        os.write(1, b"%d\n" % number)
        number += 1


def kill_and_recover(directory: str) -> None:
    with stele.open(directory) as db:
        db.create_table("events", stele.Schema())
    child = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo", "--victim", directory], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 200:
            child.send_signal(signal.SIGKILL)
            break
    acknowledged = int((child.stdout.read().split() or [line])[-1]) + 1
    child.wait()
    say(f"killed with SIGKILL after {acknowledged} acknowledged writes")
    with stele.open(directory) as db:
        found = db.table("events").scan().to_arrow().num_rows
        say(f"opened again: {found} events are there")
        check(found >= acknowledged, "an acknowledged write is lost")
        row = db.table("users").get(b"user0000000042")
        assert row is not None
        check(row["info:age"] == 99, "an acknowledged change is lost")


def other_tools(directory: str, cells: int) -> None:
    """The fragments are plain Parquet: anybody may read them.

    Compacted typed columns are columns of the file; other cells have a row of the file each.
    """
    with stele.open(directory) as db:
        tablets = db.table("users").tablets()
    names = sorted({name for tablet in tablets for name in tablet.details["files"]})
    files = [str(Path(directory, "fragments", name)) for name in names]
    counts = " + ".join(f'count("{column}")' for column in ("family", *TYPES))
    query = f"SELECT {counts}, count(DISTINCT row) FROM read_parquet({files}, union_by_name = true)"
    found, rows = duckdb.sql(query).fetchall()[0]
    say(f"DuckDB: {found:,} cells in {rows:,} rows")
    check(found >= cells - 1, "DuckDB finds too few cells")
    scored = [file for file in files if "stats:score" in polars.read_parquet_schema(file)]
    mean = polars.scan_parquet(scored).select(polars.col("stats:score").mean()).collect().item()
    say(f"Polars: the mean of stats:score is {mean:,.2f}")
    check(abs(mean - (rows - 1) / 6) < 1, "Polars finds other values")


def demo(directory: str, cells: int, *, spark: bool) -> None:
    with stele.open(directory) as db:
        users = db.create_table("users", schema())
        with step(f"load {cells:,} cells in wide, typed rows"):
            load(users, cells)
        with step("read"):
            read(users, cells)
        with step("travel in time"):
            travel(users)
        with step("split a tablet, compact both halves"):
            split(users, cells)
    with step("kill -9 while writing, open again"):
        kill_and_recover(directory)
    with step("the same files in other tools"):
        other_tools(directory, cells)
    if spark:
        with step("the pipeline on Spark: load, query, follow changes, compact, export, import"):
            pipeline(directory, say, check)
    with step("verify"), stele.open(directory) as db:
        total = db.table("users").scan().to_arrow().num_rows
        check(total == cells - 1, f"{total} cells at the end instead of {cells - 1}")
        say(f"{total:,} cells, one deleted, none lost")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--directory", help="keep the data here; a temporary directory otherwise")
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--victim", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.victim:
        victim(given.victim)
    directory = given.directory or tempfile.mkdtemp(prefix="stele-demo-")
    try:
        demo(directory, given.cells, spark=not given.no_spark)
    finally:
        if not given.directory:
            shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.write("\nEverything is as promised.\n")


if __name__ == "__main__":
    main()
