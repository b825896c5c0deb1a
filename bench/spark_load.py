"""Bulk loads against a plain ``df.sort().write.parquet()`` of the same DataFrame."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import stele
from bench.harness import Row, slower
from bench.spark_data import cell_parts, wide_parts, wide_schema
from stele import spark as ss

STRIDE = 7_919
"""Rows stand this far from where they belong, modulo their number: no file is sorted."""

PEER_OPTIONS = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
"""What our files have by default, so that both sides do the same work."""

Turns = Callable[[Callable[[], Any], Callable[[], Any]], tuple[float, float]]


def unsorted_files(directory: Path, parts: Any) -> str:
    """The rows of all parts in files that are in no order, as an export of somebody else's is."""
    directory.mkdir()
    for number, part in enumerate(parts):
        order = np.random.default_rng(number).permutation(part.num_rows)
        _write(part.take(pa.array(order)), directory / f"{STRIDE * number % 1_009:04}.parquet")
    return str(directory)


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd", compression_level=1)


def load_rows(spark: Any, directory: Path, cells: int, turns: Turns) -> list[Row]:
    """Typed wide rows, and rows of bytes, into new tables."""
    size = f"{cells / 1e6:g} M cells"
    typed = _load(spark, directory / "typed", wide_parts(cells), wide_schema(), turns)
    bare = _load(spark, directory / "bare", cell_parts(cells), stele.Schema(), turns)
    return [
        slower(f"bulk load, typed rows, {size}", *typed, "ms", 1.2),
        slower(f"bulk load, rows of bytes, {size}", *bare, "ms", 1.2),
    ]


def _load(
    spark: Any, directory: Path, parts: Any, schema: stele.Schema, turns: Turns
) -> tuple[float, float]:
    directory.mkdir()
    source = unsorted_files(directory / "input", parts)
    numbers = itertools.count()

    def theirs() -> None:
        frame = spark.read.parquet(source).sort("row")
        frame.write.options(**PEER_OPTIONS).parquet(str(directory / f"plain-{next(numbers)}"))

    with stele.open(directory / "db") as db:

        def ours() -> None:
            table = db.create_table(f"t{next(numbers)}", schema)
            ss.bulk_load(spark, spark.read.parquet(source), table)

        return turns(ours, theirs)
