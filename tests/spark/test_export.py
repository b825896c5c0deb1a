"""Export and system tables in a real Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.cli.output import Output
from stele.cli.spark import JOBS, configure
from stele.env.failpoints import armed, fail
from stele.errors import AlreadyExists, InvalidArgument, StorageFailed
from tests.spark.tables import cells_of_frame, cells_of_scan

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SCHEMA = stele.Schema(
    [stele.Group("all", ["info", "anchor"])], columns={"info:age": "int64", "info:name": "string"}
)


@pytest.fixture
def users(tmp_path: Path) -> Iterator[stele.Table]:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("users", SCHEMA, splits=[b"u5"])
        for number in range(10):
            values: dict[Any, Any] = {"info:age": number, "anchor:x": b"y%d" % number}
            table.put(b"u%d" % number, values | ({"info:name": "Zoë"} if number else {}))
        table.flush()
        table.put(b"u3", {"info:age": 33})
        yield table


def test_cells_to_parquet_and_back(spark: Any, users: stele.Table, tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    done = ss.export(spark, users, path, shape="cells", versions=None)
    assert cells_of_frame(spark.read.parquet(path)) == cells_of_scan(users, versions=None)
    assert done.lines == users.scan(versions=None).to_arrow().num_rows
    with pytest.raises(AlreadyExists, match="mode='overwrite'"):
        ss.export(spark, users, path)
    assert ss.export(spark, users, path, mode="overwrite", rows=(b"u8", None)).lines == 2


def test_rows_to_csv(spark: Any, users: stele.Table, tmp_path: Path) -> None:
    path = str(tmp_path / "csv")
    columns = ["info:age", "info:name"]
    ss.export(spark, users, path, format="csv", columns=columns, options={"header": "true"})
    found = spark.read.option("header", True).csv(path).orderBy("row").collect()
    assert found[3].asDict() == {"row": "u3", "info:age": "33", "info:name": "Zoë"}
    with pytest.raises(InvalidArgument, match="'anchor' is a map"):
        ss.export(spark, users, str(tmp_path / "maps"), format="csv")
    assert not (tmp_path / "maps").exists()


def test_maps_to_json(spark: Any, users: stele.Table, tmp_path: Path) -> None:
    path = str(tmp_path / "json")
    ss.export(spark, users, path, format="json", names="nested", binary="hex")
    first = spark.read.json(path).orderBy("row").first()
    assert first.row == b"u0".hex()
    assert first.info.age == 0
    assert first.anchor[b"x".hex()] == b"y0".hex()


def test_bytes_that_are_no_text(spark: Any, users: stele.Table, tmp_path: Path) -> None:
    users.put(b"u\xff", {"info:age": 1})
    path = str(tmp_path / "csv")
    with pytest.raises(InvalidArgument, match="binary='base64'"):
        ss.export(spark, users, path, format="csv", columns=["info:age"])
    ss.export(
        spark, users, path, format="csv", columns=["info:age"], binary="base64", mode="overwrite"
    )
    assert spark.read.csv(path, header=True).count() == 11
    with pytest.raises(InvalidArgument, match="Spark has no such format"):
        ss.export(spark, users, str(tmp_path / "x"), format="nonsense")


def test_system_tables(spark: Any, users: stele.Table, tmp_path: Path) -> None:
    users.snapshot("before")
    ss.system(spark, str(tmp_path / "db"), "tablets").createOrReplaceTempView("tablets")
    found = spark.sql(
        "SELECT table, count(*) AS n, sum(fragments) > 0 AS some FROM tablets GROUP BY 1"
    )
    assert [line.asDict() for line in found.collect()] == [{"table": "users", "n": 2, "some": True}]
    assert ss.system(spark, str(tmp_path / "db"), "leases").count() == 1


def test_operations_of_the_owner(spark: Any, users: stele.Table, tmp_path: Path) -> None:
    """Asked through the owner's socket; one of them has failed."""
    users.put(b"zz", {"info:age": 1})
    with armed("storage.fragment.after_footer", fail()), pytest.raises(StorageFailed):
        users.flush()
    ss.system(spark, str(tmp_path / "db"), "operations").createOrReplaceTempView("operations")
    found = spark.sql(
        "SELECT table, error, ended_us >= started_us AS ended FROM operations "
        "WHERE kind = 'flush' AND state = 'failed'"
    )
    assert [line.asDict() for line in found.collect()] == [
        {"table": "users", "error": "failpoint storage.fragment.after_footer", "ended": True}
    ]


def test_from_the_shell(
    spark: Any, users: stele.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``stele spark`` runs its jobs, in the session of these tests."""
    parser = argparse.ArgumentParser()
    configure(parser)
    to_csv = ["--format", "csv", "--option", "header=true", "-c", "info:age"]
    for words in (
        ["export", "users", str(tmp_path / "csv"), *to_csv],
        ["sql", "SELECT count(*) AS n FROM system_tablets"],
        ["check"],
        ["backup", "users", str(tmp_path / "backup")],
        ["restore", str(tmp_path / "backup"), "again"],
    ):
        arguments = parser.parse_args([*words, "--db", str(tmp_path / "db"), "--json"])
        with stele.open(tmp_path / "db") as db:
            JOBS[words[0]][0](spark, db, arguments, Output(None, None, as_json=True))
    printed = capsys.readouterr().out
    assert all(part in printed for part in ('"lines": 10', '{"n": 2}', '"table": "again"'))
    with stele.open(tmp_path / "db") as db:
        (row,) = db.table("again").scan(rows=(b"u3", b"u4"))
        assert row["info:age"] == 33
    assert (tmp_path / "csv" / "_SUCCESS").exists()
