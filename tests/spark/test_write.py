"""Writes and deletes with a real Spark: ``format("stele")``, ``ss.write`` and ``ss.delete``."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import InvalidArgument, InvalidCells
from stele.spark.sink import PartMessage, SteleWriter
from stele.spark.source import SteleDataSource

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TYPED = stele.Schema(
    [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", block_cells=256)],
    columns={"info:age": "int64", "info:name": "string", "info:seen": "timestamp"},
)
LATER = datetime.datetime(2200, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def db(path: str) -> Iterator[stele.Database]:
    with stele.open(path) as database:
        yield database


def people(spark: Any, count: int = 60, first: int = 0) -> Any:
    return spark.range(first, first + count, 1, 3).selectExpr(
        "concat('p', lpad(cast(id as string), 6, '0')) AS id",
        "CASE WHEN id % 5 <> 0 THEN id END AS `info:age`",
        "concat('name ', id) AS `info:name`",
        "CASE WHEN id % 3 = 0 THEN cast(id as string) END AS `anchor:x`",
    )


def keys(table: stele.Table) -> list[bytes]:
    return [row.key for row in table.scan()]


def txns(table: stele.Table) -> set[int]:
    return {cell.txn for row in table.scan(versions=None) for cell in row.cells}


def save(df: Any, path: str, mode: str = "append", **options: str) -> None:
    df.write.format("stele").mode(mode).options(rowColumn="id", **options).save(f"{path}#people")


def test_rows_are_written_by_both_faces_at_one_txn(
    spark: Any, db: stele.Database, path: str
) -> None:
    table = db.create_table("people", TYPED, splits=[b"p000030"])
    save(people(spark), path)
    assert len(txns(table)) == 1
    report = ss.write(people(spark, first=60), table, row="id")
    assert (report.rows, report.files, report.done_before) == (60, 0, False)
    assert report.cells == sum(len(row.cells) for row in table.scan(rows=(b"p000060", None)))
    assert keys(table) == [b"p%06d" % number for number in range(120)]
    assert table.get(b"p000007")["info:age"] == 7  # type: ignore[index]
    assert table.get(b"p000005", columns=["info:age"]) is None
    assert ss.read(spark, table).selectExpr("sum(`info:age`)").first()[0] == sum(
        number for number in range(120) if number % 5
    )
    assert ss.system(spark, db, "jobs").count() == 0, "writes leave no jobs behind"


def test_cells_ops_nulls_and_times(spark: Any, db: stele.Database) -> None:
    table = db.create_table("people", TYPED)
    for name in (b"a", b"b", b"c"):
        table.put(name, {"info:age": 1, "anchor:x": b"old"})
    lines = [("a", 5, None, LATER, "put"), ("b", None, "b", LATER, "delete")]
    types = "id string, `info:age` long, `anchor:x` string, t timestamp, op string"
    df = spark.createDataFrame(lines, types)
    ss.write(df, table, row="id", timestamp="t", op="op", nulls="delete")
    assert keys(table) == [b"a", b"c"]
    assert table.get(b"a", columns=["anchor:x"]) is None, "a null erases"
    copy = db.create_table("copy", TYPED)
    ss.write(ss.read(spark, table, shape="cells"), copy)
    same = [
        [(c.row, c.column, c.timestamp, c.value) for row in one.scan() for c in row.cells]
        for one in (table, copy)
    ]
    assert same[0] == same[1]
    gone = spark.createDataFrame(
        [("a", "info", "age", None, "delete")],
        "row string, family string, qualifier string, value string, op string",
    )
    ss.write(gone, copy)
    assert copy.get(b"a", columns=["info:age"]) is None


def test_a_large_write_becomes_files(spark: Any, db: stele.Database, path: str) -> None:
    table = db.create_table("people", TYPED, splits=[b"p010000"])
    df = people(spark, 30_000).selectExpr("*", "repeat('x', 200) AS `info:more`")
    report = ss.write(df, table, row="id", app_id="daily", version=1)
    assert report.files >= 3
    assert len(txns(table)) == 1
    assert len(keys(table)) == 30_000
    save(df, path, txnAppId="daily", txnVersion="1")
    assert txns(table) == {report.txn}, "in whichever form it comes again"
    assert ss.write(people(spark, 3), table, row="id", app_id="daily", version=1).done_before
    deleted = ss.delete("`info:age` > 100", table)
    assert table.get(b"p000101") is None
    assert table.get(b"p000101", at=report.txn) is not None
    assert deleted.rows == 30_000 - 101 - sum(1 for number in range(101, 30_000) if number % 5 == 0)


class CommitIsLost(SteleWriter):
    """A writer whose commit takes effect, and then fails."""

    def commit(self, messages: Sequence[PartMessage | None]) -> None:
        super().commit(messages)
        raise RuntimeError("lost on the way back")


def test_a_commit_that_took_effect_and_then_raised(
    spark: Any, db: stele.Database, path: str
) -> None:
    table = db.create_table("people", TYPED)

    class Fragile(SteleDataSource):
        @classmethod
        def name(cls) -> str:
            return "fragile"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            made = super().writer(schema, overwrite)
            made.__class__ = CommitIsLost
            return made

    spark.dataSource.register(Fragile)
    writer = people(spark, 6).write.format("fragile").mode("append")
    writer.options(rowColumn="id", txnAppId="daily", txnVersion="7")
    with pytest.raises(Exception, match="lost on the way back"):
        writer.save(f"{path}#people")
    assert len(keys(table)) == 6, "abort takes nothing back"
    table.delete(b"p000001")
    save(people(spark, 6), path, txnAppId="daily", txnVersion="7")
    assert len(keys(table)) == 5, "and it is not made again"


def test_a_delete_of_rows_and_of_columns(spark: Any, db: stele.Database, path: str) -> None:
    table = db.create_table("people", TYPED)
    ss.write(people(spark, 20), f"{path}#people", row="id")
    ss.delete(people(spark, 5).union(people(spark, 5)), table, row="id")
    assert len(keys(table)) == 15
    ss.delete(people(spark, 10), table, row="id", columns=["info:age", "anchor:"])
    assert table.get(b"p000006", columns=["info:age", "anchor:"]) is None
    assert table.get(b"p000006")["info:name"] == "name 6"  # type: ignore[index]
    assert ss.delete("`info:name` = 'name 19'", table).rows == 1
    assert len(keys(table)) == 14
    with pytest.raises(InvalidArgument, match="Spark refuses the condition"):
        ss.delete("nope = 1", table)


def test_sql_inserts(spark: Any, db: stele.Database, path: str) -> None:
    table = db.create_table("people", stele.Schema(columns={"info:age": "int64"}))
    spark.sql(f"CREATE TABLE insertable USING stele OPTIONS (db '{path}', table 'people')")
    given = f"WITH (db = '{path}', table = 'people')"
    spark.sql(f"INSERT INTO insertable {given} VALUES (X'61', 1), (X'62', 2)")
    spark.sql(f"INSERT INTO insertable {given} SELECT `row`, `info:age` + 10 FROM insertable")
    assert [row["info:age"] for row in table.scan()] == [11, 12]
    spark.sql("DROP TABLE insertable")


@pytest.mark.parametrize(
    ("lines", "types", "wrong"),
    [
        ([("a", 1), (None, 2)], "id string, `info:age` long", "key column 'id' has 1 nulls"),
        ([("a", "x")], "id string, `info:age` string", "does not fit the table.*info:age"),
        ([("a", 1), ("a", 2)], "id string, `info:age` long", "twice.*drop one"),
        ([("", 1)], "id string, `info:age` long", "at least one byte|empty"),
        ([("a", 1)], "id string, age2 long", "says no family"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(
    spark: Any, db: stele.Database, lines: list[Any], types: str, wrong: str
) -> None:
    table = db.create_table("people", TYPED)
    df = spark.createDataFrame(lines, types)
    with pytest.raises((InvalidArgument, InvalidCells), match=wrong):
        ss.write(df, table, row="id")
    assert keys(table) == []


def test_modes_that_would_remove_rows_are_refused_unless_that_is_said(
    spark: Any, db: stele.Database, path: str
) -> None:
    table = db.create_table("people", TYPED)
    table.put(b"a", {"info:age": 1})
    with pytest.raises(Exception, match="would remove all rows of the table: say so with option"):
        save(people(spark, 3), path, "overwrite")
    with pytest.raises(Exception, match="ErrorIfExists"):
        save(people(spark, 3), path, "error")
    with pytest.raises(Exception, match="no table 'peple'; did you mean 'people'"):
        people(spark, 3).write.format("stele").mode("append").save(f"{path}#peple")
    assert keys(table) == [b"a"]
    save(people(spark, 3), path, "overwrite", truncate="true")
    assert keys(table) == [b"p000000", b"p000001", b"p000002"]
    assert ss.write(people(spark, 1), table, row="id", truncate=True).rows == 1
    assert keys(table) == [b"p000000"]
