"""``ss.bulk_load``: what a DataFrame says is in the table, once, or nothing of it is."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.env.failpoints import SimulatedCrash, armed, crash, fail
from stele.errors import InvalidArgument, InvalidCells, SteleError
from stele.spark.shapes import Shape

pytestmark = [
    pytest.mark.spark,
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TYPED = stele.Schema(
    [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", block_cells=256)],
    columns={"info:age": "int64", "info:name": "string", "info:seen": "timestamp"},
)
LATER = datetime.datetime(2200, 1, 1, tzinfo=datetime.UTC)
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)

SHAPES: tuple[Shape, ...] = ("rows", "cells")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        yield database


def people(spark: Any, count: int = 300) -> Any:
    """Rows in no order, with nulls, text for bytes, and undeclared columns."""
    return spark.range(0, count, 1, 3).selectExpr(
        f"concat('p', lpad(cast((id * 7919) % {count} as string), 6, '0')) AS id",
        "CASE WHEN id % 5 <> 0 THEN id END AS `info:age`",
        "concat('name ', id) AS name",
        "timestamp'2026-01-01 12:00:00Z' AS `info:seen`",
        "CASE WHEN id % 3 = 0 THEN cast(id as string) END AS `anchor:x`",
    )


def rows_in(table: stele.Table) -> int:
    return len({row.key for row in table.scan()})


def test_a_typed_load_is_what_the_dataframe_says(spark: Any, db: stele.Database) -> None:
    table = db.create_table("people", TYPED, splits=[b"p000100"])
    table.put(b"p000000", {"info:age": -1})
    renamed = people(spark).withColumnRenamed("name", "info:name")
    report = ss.bulk_load(spark, renamed, table, row="id")
    assert (report.rows, report.done_before) == (300, False)
    assert report.cells == sum(len(row.cells) for row in table.scan(versions=None)) - 1
    assert report.size_bytes > 0
    assert report.seconds > 0
    row = table.get(b"p000119")  # 7919 % 300
    assert row is not None
    assert row["info:age"] == 1
    assert row["info:name"] == "name 1"
    assert row["info:seen"] == NOON
    assert {cell.txn for cell in row.cells} == {report.txn}
    assert table.get(b"p000000", at=report.txn)["info:name"] == "name 0"  # type: ignore[index]
    assert rows_in(table) == 300
    assert table.get(b"p000119", at=report.txn - 1) is None
    frame = ss.read(spark, table, columns=["info:"])
    assert (
        frame.selectExpr("sum(`info:age`)").collect()[0][0]
        == sum(n for n in range(300) if n % 5) - 1
    )
    table.compact()
    assert rows_in(table) == 300


def test_what_is_read_can_be_loaded_again(spark: Any, db: stele.Database) -> None:
    schema = stele.Schema(
        [stele.Group("hot", ["info"]), stele.Group("rest", ["anchor"])],
        columns={"info:age": "int64", "info:id": "uint64", "info:name": "string"},
    )
    table = db.create_table("first", schema)
    for number in range(50):
        values: dict[Any, Any] = {"info:id": (1 << 64) - 1 - number}
        values[stele.Column("anchor", b"\xff")] = b"%d" % number
        table.put(b"%03d" % number, values | ({"info:name": "x"} if number % 2 else {}))
    seen: list[ss.LoadProgress] = []
    for shape in SHAPES:
        again = db.create_table(shape, schema)
        frame = ss.read(spark, table, shape=shape)
        report = ss.bulk_load(spark, frame, again, shape=shape, progress=seen.append)
        assert (seen[-1].phase, seen[-1].rows) == ("done", report.rows)
        assert seen[-1].size_bytes >= report.size_bytes > 0
        found, wanted = (one.scan().to_arrow() for one in (again, table))
        for column in ("row", "family", "qualifier", "value"):
            assert found.column(column).to_pylist() == wanted.column(column).to_pylist(), column


def test_a_load_with_a_name_happens_once(spark: Any, db: stele.Database) -> None:
    table = db.create_table("people", TYPED)
    first = ss.bulk_load(spark, people(spark, 50), table, row="id", family="info", job_id="day 1")
    again = ss.bulk_load(spark, people(spark, 90), table, row="id", family="info", job_id="day 1")
    assert again.done_before
    assert again.txn == first.txn
    assert rows_in(table) == 50


def test_ops_nulls_and_timestamps(spark: Any, db: stele.Database) -> None:
    table = db.create_table("people", TYPED)
    for name in (b"a", b"b", b"c"):
        table.put(name, {"info:age": 1, "anchor:x": b"old"})
    lines = [
        ("a", 5, None, LATER, "put"),
        ("b", None, "b", LATER, "delete"),
        ("b", None, "b", LATER, "delete"),
        ("d", 6, "d", LATER, "put"),
    ]
    types = "id string, age long, x string, t timestamp, op string"
    df = spark.createDataFrame(lines, types).withColumnsRenamed(
        {"age": "info:age", "x": "anchor:x"}
    )
    ss.bulk_load(spark, df, table, row="id", timestamp="t", op="op", nulls="delete")
    assert sorted(row.key for row in table.scan()) == [b"a", b"c", b"d"]
    stamp = int(LATER.timestamp()) * 1_000_000
    assert {cell.timestamp for cell in table.get(b"d").cells} == {stamp}  # type: ignore[union-attr]
    assert table.get(b"a", columns=["anchor:x"]) is None, "a null erases"


@pytest.mark.parametrize(
    ("lines", "types", "wrong"),
    [
        ([("a", 1), (None, 2)], "id string, `info:age` long", "key column id is null in the row"),
        ([("a", "x")], "id string, `info:age` string", "info:age"),
        ([("a", 1), ("a", 2)], "id string, `info:age` long", "twice"),
        ([("", 1)], "id string, `info:age` long", "at least one byte|empty"),
        ([("a", 1)], "id string, age2 long", "says no family"),
        ([("a", 1)], "key string, `info:age` long", "no column 'id'"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(
    spark: Any, db: stele.Database, lines: list[Any], types: str, wrong: str
) -> None:
    table = db.create_table("people", TYPED)
    df = spark.createDataFrame(lines, types)
    with pytest.raises((InvalidArgument, InvalidCells), match=wrong):
        ss.bulk_load(spark, df, table, row="id", splits=[])
    assert rows_in(table) == 0


def test_typed_keys_and_samples(spark: Any, db: stele.Database) -> None:
    schema = stele.Schema(key=[("tenant", "string"), ("day", "int64")])
    table = db.create_table("days", schema)
    df = spark.range(100).selectExpr(
        "concat('t', id % 3) AS tenant", "-id AS day", "cast(id as string) AS `f:v`"
    )
    report = ss.bulk_load(spark, df, table)
    assert report.rows == 100
    assert table.get(("t1", -4))["f:v"] == b"4"  # type: ignore[index]
    assert [row.key for row in table.scan()] == sorted(row.key for row in table.scan())


@pytest.mark.parametrize("name", ["after_begin", "after_tasks", "after_commit"])
def test_a_driver_that_dies_leaves_all_or_nothing(
    spark: Any, db: stele.Database, name: str
) -> None:
    table = db.create_table("people", TYPED, splits=[b"p000020"])
    df = people(spark, 40)
    arguments: dict[str, Any] = {"row": "id", "family": "info", "job_id": "job"}
    with armed(f"spark.load.{name}", crash()), pytest.raises(SimulatedCrash):
        ss.bulk_load(spark, df, table, **arguments)
    assert rows_in(table) == (40 if name == "after_commit" else 0)
    table.split(b"p000010")
    report = ss.bulk_load(spark, df, table, **arguments)
    assert report.done_before == (name == "after_commit")
    assert rows_in(table) == 40


def test_an_error_gives_the_job_up_and_it_can_be_run_again(spark: Any, db: stele.Database) -> None:
    table = db.create_table("people", TYPED)
    df = people(spark, 40)
    with armed("spark.load.after_tasks", fail()), pytest.raises(SteleError):
        ss.bulk_load(spark, df, table, row="id", family="info", job_id="job")
    assert rows_in(table) == 0
    assert ss.bulk_load(spark, df, table, row="id", family="info", job_id="job").rows == 40


def test_a_worker_that_is_killed_leaves_nothing_behind(
    spark: Any, db: stele.Database, tmp_path: Path
) -> None:
    table = db.create_table("people", TYPED)
    marker = str(tmp_path / "killed")

    def die_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if not os.path.exists(marker):
                Path(marker).touch()
                os._exit(1)
            yield batch

    df = people(spark, 40)
    fragile = df.mapInArrow(die_once, df.schema)
    arguments: dict[str, Any] = {"row": "id", "family": "info", "job_id": "job", "splits": []}
    with pytest.raises(Exception, match=r"(?i)python worker|crashed|EOF"):
        ss.bulk_load(spark, fragile, table, **arguments)
    assert rows_in(table) == 0
    assert ss.bulk_load(spark, fragile, table, **arguments).rows == 40
    assert rows_in(table) == 40
