"""Tables of Spark's catalog over ``format("stele")``: what Spark passes on, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

WRITE_REMEDY = r"INSERT INTO t WITH \(db = '…', table = '…'\) …, or df\.writeTo\('t'\)"
READ_REMEDY = r"DROP TABLE it, and CREATE TABLE … USING stele OPTIONS"


@pytest.fixture
def people(tmp_path: Path) -> Iterator[stele.Table]:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("people", stele.Schema(columns={"info:age": "int64"}))
        table.put(b"a", {"info:age": 1})
        yield table


@pytest.fixture
def place(spark: Any, people: stele.Table, tmp_path: Path) -> Iterator[str]:
    """Where the table is, in SQL; Spark's catalog has it as ``cat``."""
    spark.sql("DROP TABLE IF EXISTS cat")
    spark.sql(f"CREATE TABLE cat USING stele OPTIONS (db '{tmp_path / 'db'}', table 'people')")
    yield f"db = '{tmp_path / 'db'}', table = 'people'"
    spark.sql("DROP TABLE IF EXISTS cat")


def test_writes_into_the_catalogs_table_say_where_it_is(
    spark: Any, people: stele.Table, place: str, tmp_path: Path
) -> None:
    lines = spark.createDataFrame([(bytearray(b"b"), 2)], "row binary, `info:age` long")
    with pytest.raises(Exception, match=WRITE_REMEDY):
        lines.write.insertInto("cat")
    with pytest.raises(Exception, match=WRITE_REMEDY):
        lines.writeTo("cat").append()
    with pytest.raises(Exception, match=WRITE_REMEDY):
        spark.sql("INSERT INTO cat VALUES (binary('d'), 4)")
    assert people.scan().count() == 1
    lines.writeTo("cat").option("db", str(tmp_path / "db")).option("table", "people").append()
    lines.createOrReplaceTempView("lines")
    spark.sql(f"INSERT INTO cat WITH ({place}) SELECT binary('c'), `info:age` + 1 FROM lines")
    spark.sql(f"INSERT INTO cat WITH ({place}) VALUES (binary('d'), 4)")
    assert [row["info:age"] for row in people.scan()] == [1, 2, 3, 4]
    with pytest.raises(Exception, match="format of the existing table"):
        lines.write.mode("append").saveAsTable("cat")


def test_lines_of_one_table_are_not_written_back_into_it(
    spark: Any, people: stele.Table, place: str, tmp_path: Path
) -> None:
    with stele.open(tmp_path / "db") as db:
        other = db.create_table("other", people.schema)
        spark.sql("DROP TABLE IF EXISTS target")
        spark.sql(
            f"CREATE TABLE target USING stele OPTIONS (db '{tmp_path / 'db'}', table 'other')"
        )
        try:
            with pytest.raises(Exception, match=WRITE_REMEDY):
                spark.sql("INSERT INTO target SELECT * FROM cat")
            with pytest.raises(Exception, match=WRITE_REMEDY):
                spark.read.format("stele").load(f"{tmp_path / 'db'}#people").writeTo(
                    "target"
                ).append()
            to_other = place.replace("people", "other")
            spark.sql(f"INSERT INTO target WITH ({to_other}) SELECT * FROM cat")
        finally:
            spark.sql("DROP TABLE target")
        assert other.scan().count() == 1
        assert people.scan(versions=None).to_arrow().num_rows == 1


def test_what_spark_cannot_do_is_refused(spark: Any, people: stele.Table, place: str) -> None:
    for statement in (
        "SELECT * FROM cat VERSION AS OF 5",
        "DELETE FROM cat WHERE `info:age` = 1",
        "UPDATE cat SET `info:age` = 7",
        "TRUNCATE TABLE cat",
    ):
        with pytest.raises(Exception, match=r"\[|not support"):
            spark.sql(statement).collect()
    assert people.get(b"a").to_dict() == {"info:age": 1}  # type: ignore[union-attr]
    assert place


def test_a_table_without_a_place_says_so_when_it_is_read(spark: Any) -> None:
    spark.sql("DROP TABLE IF EXISTS nowhere")
    spark.sql("CREATE TABLE nowhere (a STRING) USING stele")
    try:
        with pytest.raises(Exception, match=READ_REMEDY):
            spark.sql("SELECT * FROM nowhere").collect()
    finally:
        spark.sql("DROP TABLE nowhere")


def test_save_as_table_without_a_place_is_refused(spark: Any) -> None:
    lines = spark.createDataFrame([("a", 2)], "row string, `info:age` long")
    with pytest.raises(Exception, match="needs the option 'db': give 'db' and 'table'"):
        lines.write.format("stele").saveAsTable("fresh")
    assert not spark.catalog.tableExists("fresh")


def test_a_catalog_that_fell_behind_or_ran_ahead(
    spark: Any, people: stele.Table, place: str, tmp_path: Path
) -> None:
    with stele.open(tmp_path / "db") as db:
        columns = {"info:age": "int64", "info:name": "string"}
        db.alter_table("people", stele.Schema(columns=columns))
    people.put(b"b", {"info:age": 2, "info:name": "Bob"})
    assert spark.sql("SELECT * FROM cat").columns == ["row", "info:age"], "as Spark knows it"
    assert spark.sql("SELECT count(*) FROM cat").first()[0] == 2
    assert place
    spark.sql("ALTER TABLE cat ADD COLUMN `info:zip` STRING")
    with pytest.raises(Exception, match=r"the table has no column 'info:zip'.* If it was altered"):
        spark.sql("SELECT * FROM cat").collect()


def test_a_temporary_view_keeps_its_snapshot(
    spark: Any, people: stele.Table, tmp_path: Path
) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW kept USING stele "
        f"OPTIONS (db '{tmp_path / 'db'}', table 'people')"
    )
    assert spark.sql("SELECT count(*) FROM kept").first()[0] == 1
    people.put(b"b", {"info:age": 2})
    assert spark.sql("SELECT count(*) FROM kept").first()[0] == 1
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW kept USING stele "
        f"OPTIONS (db '{tmp_path / 'db'}', table 'people')"
    )
    assert spark.sql("SELECT count(*) FROM kept").first()[0] == 2
