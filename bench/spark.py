"""Spark over a table's files against Spark over plain Parquet with the same data.

    python -m bench.spark [--sizes 20000000] [--rounds 3] [--only cells,wide,load,…]
                          [--seconds-max 3600] [--master local[2]] [--driver-memory 2g]
                          [--directory DIR] [--json FILE]

Ours is timed from the call of ``ss.read``, with its pin and its plan, to the last row; theirs from
``spark.read.parquet``. Both sides take turns and the best turn counts. Several sizes, as in
``--sizes 1000000,5000000,50000000``, show how each work grows, and what memory it takes; what is
measured is shown at once, and after ``--seconds-max`` no further work is begun.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import Row, best_of, report, table
from bench.spark_jobs import compact_rows, export_rows, lookup_rows
from bench.spark_load import Turns, load_rows
from bench.spark_memory import PeakMemory
from bench.spark_tables import cells_rows, wide_rows
from stele import spark as ss

SIZE_DEFAULT = 20_000_000

WORKS: dict[str, Callable[[Any, Path, int, Turns], list[Row]]] = {
    "cells": cells_rows,
    "wide": wide_rows,
    "load": load_rows,
    "compact": compact_rows,
    "export": export_rows,
    "lookup": lookup_rows,
}


def turns_of(rounds: int) -> Turns:
    """The best times of two sides in milliseconds, after one turn that does not count."""

    def turns(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
        best_of(1, ours, theirs)
        mine, other = best_of(rounds, ours, theirs)
        return mine * 1e3, other * 1e3

    return turns


def measure(spark: Any, arguments: argparse.Namespace) -> list[Row]:
    """All works of all sizes, as far as there is time."""
    memory, turns = PeakMemory(), turns_of(arguments.rounds)
    ends = time.monotonic() + arguments.seconds_max
    rows: list[Row] = []
    for size in map(int, arguments.sizes.split(",")):
        for name in arguments.only.split(","):
            if time.monotonic() > ends:
                print(f"no time left for {name} with {size:,} cells")
                continue
            directory = Path(tempfile.mkdtemp(dir=arguments.directory))
            memory.taken()
            try:
                found = WORKS[name](spark, directory, size, turns)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
            print(table(found).partition("\n\n")[2])
            print(f"  peak memory of {name}, {size / 1e6:g} M cells: {memory.taken()}", flush=True)
            rows += found
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", default=str(SIZE_DEFAULT))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(WORKS))
    parser.add_argument("--seconds-max", type=float, default=3_600.0)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--driver-memory", default="2g")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    spark = ss.session(
        arguments.master,
        **{
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": arguments.driver_memory,
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    report(measure(spark, arguments), arguments.json)
    spark.stop()


if __name__ == "__main__":
    main()
