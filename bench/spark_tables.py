"""Tables for the Spark benchmarks, and reads of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import stele
from bench.harness import Row, slower
from bench.spark_data import COLUMNS_PER_ROW, cell_parts, delta, row_key, wide_parts, wide_schema
from bench.spark_load import Turns
from stele import spark as ss

DELTAS = 3
DELTA_SHARE = 10
"""One row in so many is written again by each delta."""
RANGE_ROWS = 1_000

BY_HAND = stele.EngineOptions(background=False)
"""Nothing is compacted but what is asked for."""


def fill(table: stele.Table, parts: Iterable[pa.Table]) -> None:
    """Write all parts, each into files of its own: together they are one sorted run."""
    for part in parts:
        table.write(part)
        table.flush()


def drain(frame: Any) -> None:
    """Read every column of every row."""
    frame.write.format("noop").mode("overwrite").save()


def cells_rows(spark: Any, directory: Path, cells: int, turns: Turns) -> list[Row]:
    """Cells: compacted, with deltas over it, and a small range of rows."""
    size = f"{cells / 1e6:g} M cells"
    with stele.open(directory / "cells", BY_HAND) as db:
        table = db.create_table("t")
        fill(table, cell_parts(cells))
        table.compact()
        plain = str(directory / "plain-cells")
        base = ss.read(spark, table, shape="cells")
        base.write.option("compression", "zstd").parquet(plain)

        def ours(**arguments: Any) -> Any:
            return ss.read(spark, table, shape="cells", **arguments)

        full = turns(lambda: drain(ours()), lambda: drain(spark.read.parquet(plain)))
        first = cells // COLUMNS_PER_ROW // 2
        rows = (row_key(first), row_key(first + RANGE_ROWS))
        condition = f"row >= X'{rows[0].hex()}' AND row < X'{rows[1].hex()}'"
        small = turns(
            lambda: drain(ours(rows=rows)),
            lambda: drain(spark.read.parquet(plain).where(condition)),
        )
        for number in range(DELTAS):
            fill(table, delta(cells, DELTA_SHARE, number))
        merged = turns(lambda: drain(ours()), lambda: drain(spark.read.parquet(plain)))
    return [
        slower(f"full read, compacted, {size}", *full, "ms", 1.2),
        slower(f"full read, {DELTAS} deltas of 10 %, {size}", *merged, "ms", 2.2),
        slower(f"range of {RANGE_ROWS:,} rows, {size}", *small, "ms", 2.0),
    ]


def wide_rows(spark: Any, directory: Path, cells: int, turns: Turns) -> list[Row]:
    """Typed wide rows: all columns, and one."""
    size = f"{cells / 1e6:g} M cells"
    with stele.open(directory / "wide", BY_HAND) as db:
        table = db.create_table("t", wide_schema())
        fill(table, wide_parts(cells))
        table.compact()
        plain = str(directory / "plain-wide")
        whole = ss.read(spark, table)
        whole.write.option("compression", "zstd").parquet(plain)
        column = whole.columns[1]

        def total(frame: Any) -> Any:
            return frame.selectExpr(f"sum(`{column}`)").first()

        full = turns(
            lambda: drain(ss.read(spark, table)),
            lambda: drain(spark.read.parquet(plain)),
        )
        one = turns(
            lambda: total(ss.read(spark, table, columns=[column])),
            lambda: total(spark.read.parquet(plain)),
        )
    return [
        slower(f"typed rows, all columns, {size}", *full, "ms", 1.6),
        slower(f"typed rows, one column, {size}", *one, "ms", 2.0),
    ]
