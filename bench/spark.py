"""Spark over a table's files against Spark over plain Parquet with the same data.

    python -m bench.spark [--sizes 20000000] [--rounds 3] [--only cells,wide] [--master local[2]]
                          [--directory DIR] [--json FILE]

Ours is timed from the call of ``ss.read``, with its pin and its plan, to the last row; theirs from
``spark.read.parquet``. Both sides take turns and the best turn counts. Several sizes, as in
``--sizes 1000000,5000000,50000000``, show how each work grows.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import stele
from bench.harness import Row, best_of, report, slower
from bench.spark_data import COLUMNS_PER_ROW, cell_parts, delta, row_key, wide_parts, wide_schema
from bench.spark_memory import PeakMemory
from stele import spark as ss

SIZE_DEFAULT = 20_000_000
DELTAS = 3
DELTA_SHARE = 10
"""One row in so many is written again by each delta."""
RANGE_ROWS = 1_000

BY_HAND = stele.EngineOptions(background=False)
"""Nothing is compacted but what is asked for."""


def load(table: stele.Table, parts: Iterable[pa.Table]) -> None:
    """Write all parts, each into files of its own: together they are one sorted run."""
    for part in parts:
        table.write(part)
        table.flush()


def drain(frame: Any) -> None:
    """Read every column of every row."""
    frame.write.format("noop").mode("overwrite").save()


def turns(rounds: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """The best times of both sides in milliseconds, after one turn that does not count."""
    best_of(1, ours, theirs)
    mine, other = best_of(rounds, ours, theirs)
    return mine * 1e3, other * 1e3


def cells_rows(spark: Any, directory: Path, cells: int, rounds: int) -> list[Row]:
    """Cells: compacted, with deltas over it, and a small range of rows."""
    size = f"{cells / 1e6:g} M cells"
    with stele.open(directory / "cells", BY_HAND) as db:
        table = db.create_table("t")
        load(table, cell_parts(cells))
        table.compact()
        plain = str(directory / "plain-cells")
        base = ss.read(spark, table, shape="cells")
        base.write.option("compression", "zstd").parquet(plain)

        def ours(**arguments: Any) -> Any:
            return ss.read(spark, table, shape="cells", **arguments)

        full = turns(rounds, lambda: drain(ours()), lambda: drain(spark.read.parquet(plain)))
        first = cells // COLUMNS_PER_ROW // 2
        rows = (row_key(first), row_key(first + RANGE_ROWS))
        condition = f"row >= X'{rows[0].hex()}' AND row < X'{rows[1].hex()}'"
        small = turns(
            rounds,
            lambda: drain(ours(rows=rows)),
            lambda: drain(spark.read.parquet(plain).where(condition)),
        )
        for number in range(DELTAS):
            load(table, delta(cells, DELTA_SHARE, number))
        merged = turns(rounds, lambda: drain(ours()), lambda: drain(spark.read.parquet(plain)))
    return [
        slower(f"full read, compacted, {size}", *full, "ms", 1.2),
        slower(f"full read, {DELTAS} deltas of 10 %, {size}", *merged, "ms", 2.2),
        slower(f"range of {RANGE_ROWS:,} rows, {size}", *small, "ms", 2.0),
    ]


def wide_rows(spark: Any, directory: Path, cells: int, rounds: int) -> list[Row]:
    """Typed wide rows: all columns, and one."""
    size = f"{cells / 1e6:g} M cells"
    with stele.open(directory / "wide", BY_HAND) as db:
        table = db.create_table("t", wide_schema())
        load(table, wide_parts(cells))
        table.compact()
        plain = str(directory / "plain-wide")
        whole = ss.read(spark, table)
        whole.write.option("compression", "zstd").parquet(plain)
        column = whole.columns[1]

        def total(frame: Any) -> Any:
            return frame.selectExpr(f"sum(`{column}`)").first()

        full = turns(
            rounds,
            lambda: drain(ss.read(spark, table)),
            lambda: drain(spark.read.parquet(plain)),
        )
        one = turns(
            rounds,
            lambda: total(ss.read(spark, table, columns=[column])),
            lambda: total(spark.read.parquet(plain)),
        )
    return [
        slower(f"typed rows, all columns, {size}", *full, "ms", 1.6),
        slower(f"typed rows, one column, {size}", *one, "ms", 2.0),
    ]


WORKS = {"cells": cells_rows, "wide": wide_rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", default=str(SIZE_DEFAULT))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(WORKS))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    spark = ss.session(
        arguments.master,
        **{"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
    )
    spark.sparkContext.setLogLevel("ERROR")
    memory = PeakMemory()
    rows: list[Row] = []
    for size in map(int, arguments.sizes.split(",")):
        for name in arguments.only.split(","):
            directory = Path(tempfile.mkdtemp(dir=arguments.directory))
            try:
                rows += WORKS[name](spark, directory, size, arguments.rounds)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    report(rows, arguments.json)
    print(memory.described())
    spark.stop()


if __name__ == "__main__":
    main()
