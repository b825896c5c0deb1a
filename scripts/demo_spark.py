"""The Spark pipeline of the demo: a CSV file becomes a table, is queried, changed, and goes out."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import stele
from stele import spark as ss

ORDERS = 100_000
BUYERS = 1_000
SCHEMA = stele.Schema(columns={"o:buyer": "string", "o:cents": "int64"}, history="24h")

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}

Say = Callable[[str], None]
Check = Callable[[bool, str], None]


def write_csv(path: Path) -> int:
    """Orders, in no order; the sum of what they cost."""
    total = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "buyer", "cents"])
        for number in range(ORDERS):
            shuffled = number * 7_919 % ORDERS
            cents = 100 + shuffled % 9_000
            total += cents
            writer.writerow([f"order{shuffled:08}", f"buyer {shuffled % BUYERS}", cents])
    return total


def pipeline(directory: str, say: Say, check: Check) -> None:
    """Every step is one call of ``stele.spark``; the store stays open and could be written to."""
    source, out = Path(directory, "orders.csv"), str(Path(directory, "export"))
    total = write_csv(source)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = ss.session("local[2]", **QUIET)
    session.sparkContext.setLogLevel("ERROR")
    try:
        with stele.open(directory) as db:
            orders = db.create_table("orders", SCHEMA)
            load(session, orders, source, total, say, check)
            follow(session, orders, say, check)
            compact(session, orders, say, check)
            leave(session, db, out, say, check)
    finally:
        session.stop()


def load(
    session: Any, orders: stele.Table, source: Path, total: int, say: Say, check: Check
) -> None:
    frame = session.read.csv(str(source), header=True, schema="id string, buyer string, cents long")
    loaded = ss.bulk_load(session, frame, orders, row="id", family="o")
    say(f"bulk load of a CSV file: {loaded.rows:,} rows, {loaded.cells:,} cells, one txn")
    ss.view(session, orders)
    best = session.sql(
        "SELECT `o:buyer` AS buyer, sum(`o:cents`) AS cents FROM orders "
        "GROUP BY buyer ORDER BY cents DESC, buyer LIMIT 1"
    ).first()
    say(f"Spark SQL: {best.buyer} spent most, {best.cents / 100:,.2f}")
    spent = session.sql("SELECT sum(`o:cents`) FROM orders").first()[0]
    check(spent == total, f"Spark finds {spent} cents instead of {total}")


def follow(session: Any, orders: stele.Table, say: Say, check: Check) -> None:
    before = orders.snapshot("before corrections")
    orders.put(b"order00000007", {"o:cents": 1})
    orders.delete(b"order00000008")
    lines = ss.changes(session, orders, since=before).collect()
    told = sorted((bytes(line["row"]).decode(), line["_change_type"]) for line in lines)
    say(f"changes since then, as a DataFrame: {told}")
    kinds = [kind for _, kind in told]
    check(kinds == ["update_postimage", "update_preimage", "delete"], "the changes are others")


def compact(session: Any, orders: stele.Table, say: Say, check: Check) -> None:
    before = orders.scan().to_arrow().num_rows
    report = ss.compact(session, orders)
    say(f"compacted by executors: {report.bytes_in:,} bytes became {report.bytes_out:,}")
    after = ss.read(session, orders, shape="cells").count()
    check(before == after == 2 * (ORDERS - 1), "the compaction changed what is there")


def leave(session: Any, db: stele.Database, out: str, say: Say, check: Check) -> None:
    done = ss.export(session, db.table("orders"), out, format="csv", options={"header": "true"})
    again = db.create_table("orders again", SCHEMA)
    ss.import_(session, out, again, format="csv")
    orders = db.table("orders")
    say(f"exported to CSV and imported again: {done.lines:,} lines")
    check(contents(again) == contents(orders), "the copy is not the same")


def contents(table: stele.Table) -> pa.Table:
    """Rows, columns and values, without the times at which they were written."""
    cells = table.scan().to_arrow()
    names = cells.column("family").cast(pa.string())
    return cells.select(["row", "qualifier", "value"]).append_column("family", names)
