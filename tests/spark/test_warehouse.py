"""Loads, queries, compactions and lookups over data as warehouses have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import stele
from stele import spark as ss
from tests.spark.warehouse import HEADS, LINES, make_orders, skewed_rows, table_schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

QUERIES = (
    """SELECT flag, count(*), sum(quantity), sum(price), min(shipped), max(discount)
       FROM lines WHERE shipped <= DATE '1997-09-02' GROUP BY flag""",
    """SELECT h.customer, count(DISTINCT h.`order`), sum(l.price), max(h.ordered)
       FROM heads h JOIN lines l ON l.`order` = h.`order`
       WHERE h.ordered < DATE '1996-03-15' AND l.shipped > DATE '1993-03-15'
       GROUP BY h.customer""",
    """SELECT h.status, count(*), sum(h.total) FROM heads h
       WHERE EXISTS (SELECT 1 FROM lines l WHERE l.`order` = h.`order` AND l.discount > 0.05)
       GROUP BY h.status""",
    """SELECT sum(price) FROM lines
       WHERE discount BETWEEN 0.05 AND 0.07 AND quantity < 24 AND part = 1""",
)


def flat(spark: Any, table: stele.Table, key: str | None = None) -> Any:
    frame = ss.read(spark, table, names="flat")
    return frame if key is None else frame.withColumnRenamed("row", key)


def test_aggregates_are_those_of_another_engine(spark: Any, tmp_path: Path) -> None:
    heads, lines = make_orders()
    with stele.open(tmp_path) as db, duckdb.connect() as other:
        orders = db.create_table("orders", table_schema(HEADS, "order"))
        items = db.create_table("items", table_schema(LINES, "order", "line"))
        ss.bulk_load(spark, spark.createDataFrame(heads), orders, row="order", family="o")
        ss.bulk_load(spark, spark.createDataFrame(lines), items, row=["order", "line"], family="o")
        flat(spark, orders, "order").createOrReplaceTempView("heads")
        flat(spark, items).createOrReplaceTempView("lines")
        other.register("heads", heads)
        other.register("lines", lines)
        for query in QUERIES:
            found = sorted(tuple(line) for line in spark.sql(query).collect())
            wanted = sorted(other.sql(query.replace("`", '"')).fetchall())
            assert found == wanted
            assert found


def test_a_tenant_with_most_rows_is_loaded_compacted_and_looked_up(
    spark: Any, tmp_path: Path
) -> None:
    rows = skewed_rows(20_000)
    with stele.open(tmp_path) as db:
        key = [("tenant", "string"), ("number", "int64")]
        schema = stele.Schema([stele.Group("all", ["o"])], columns={"o:size": "int64"}, key=key)
        events = db.create_table("events", schema)
        frame = spark.createDataFrame(rows)
        for part in frame.randomSplit([0.7, 0.3], seed=5):
            ss.bulk_load(spark, part, events, row=["tenant", "number"])
        ss.compact(spark, events)
        wanted = {tuple(line.values()) for line in rows.to_pylist()}
        assert {tuple(line) for line in ss.read(spark, events).collect()} == wanted
        asked = frame.select("tenant", "number").where("number % 3 = 0 OR tenant <> 'big'")
        found = ss.lookup_join(
            asked.unionByName(spark.sql("SELECT 'big' AS tenant, -1L AS number")),
            events,
            on=["tenant", "number"],
        )
        answers = {tuple(line) for line in found.collect()}
        chosen = {line for line in wanted if line[1] % 3 == 0 or line[0] != "big"}
        assert answers == {*chosen, ("big", -1, None)}
