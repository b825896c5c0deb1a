"""Jobs over a table's files: compaction, export and lookup join, each against its alternative."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import stele
from bench.harness import Row, faster, slower
from bench.spark_data import (
    COLUMNS_PER_ROW,
    WIDE_TYPES,
    cell_parts,
    delta,
    row_key,
    wide_parts,
    wide_schema,
)
from bench.spark_load import PEER_OPTIONS, Turns
from bench.spark_tables import BY_HAND, DELTA_SHARE, DELTAS, fill
from stele import spark as ss

LOOKUPS = 100_000


def compact_rows(spark: Any, directory: Path, cells: int, _turns: Turns) -> list[Row]:
    """A table with deltas over it, compacted by executors and by its owner alone: once each."""
    rates = []
    for name in ("spark", "owner"):
        with stele.open(directory / name, BY_HAND) as db:
            table = db.create_table("t", splits=[row_key(cells // COLUMNS_PER_ROW // 2)])
            fill(table, cell_parts(cells))
            for number in range(DELTAS):
                fill(table, delta(cells, DELTA_SHARE, number))
            size_bytes = sum(tablet.size_bytes for tablet in table.tablets())
            start = time.perf_counter()
            if name == "spark":
                ss.compact(spark, table)
            else:
                table.compact()
            rates.append(size_bytes / 1e6 / (time.perf_counter() - start))
    ours, owners = rates
    return [
        faster(f"compaction against the owner's, {cells / 1e6:g} M cells", ours, owners, "MB/s")
    ]


def export_rows(spark: Any, directory: Path, cells: int, turns: Turns) -> list[Row]:
    """A compacted typed table to Parquet, against copying a plain one."""
    numbers = itertools.count()
    with stele.open(directory / "db", BY_HAND) as db:
        table = db.create_table("t", wide_schema())
        fill(table, wide_parts(cells))
        table.compact()
        plain = str(directory / "plain")
        ss.read(spark, table).write.options(**PEER_OPTIONS).parquet(plain)

        def ours() -> None:
            path = str(directory / f"out-{next(numbers)}")
            ss.export(spark, table, path, options=PEER_OPTIONS)

        def theirs() -> None:
            path = str(directory / f"out-{next(numbers)}")
            spark.read.parquet(plain).write.options(**PEER_OPTIONS).parquet(path)

        times = turns(ours, theirs)
    return [slower(f"export to Parquet, {cells / 1e6:g} M cells", *times, "ms")]


def lookup_rows(spark: Any, directory: Path, cells: int, turns: Turns) -> list[Row]:
    """Some keys looked up, against a scan of everything joined with them."""
    rows = cells // len(WIDE_TYPES)
    wanted = min(LOOKUPS, rows)
    with stele.open(directory / "db", BY_HAND) as db:
        table = db.create_table("t", wide_schema())
        fill(table, wide_parts(cells))
        table.compact()
        text = f"concat('row-', lpad(CAST((id * 7919) % {rows} AS STRING), 12, '0'))"
        keys = spark.range(0, wanted, 1, 2).selectExpr(f"CAST({text} AS BINARY) AS id").cache()
        keys.count()

        def ours() -> None:
            found = ss.lookup_join(keys, table, on="id", columns=["m:level"], how="inner")
            check(found.selectExpr("count(`m:level`)").first()[0], wanted)

        def theirs() -> None:
            scan = ss.read(spark, table, columns=["m:level"])
            found = scan.join(keys, scan["row"] == keys["id"])
            check(found.selectExpr("count(`m:level`)").first()[0], wanted)

        times = turns(ours, theirs)
        keys.unpersist()
    return [slower(f"{wanted:,} keys looked up, {cells / 1e6:g} M cells", *times, "ms")]


def check(found: int, wanted: int) -> None:
    """A benchmark that gives wrong answers measures nothing."""
    if found != wanted:
        raise AssertionError(f"{found} rows were found, not {wanted}")
