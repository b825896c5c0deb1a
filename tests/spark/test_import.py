"""What an export wrote comes back: each format, each shape, bytes by each rule."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import InvalidArgument, SteleError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"]), stele.Group("rest", ["anchor"])],
    columns={
        "info:age": "int64",
        "info:name": "string",
        "info:seen": "timestamp",
        "info:score": "float64",
        "info:raw": "binary",
    },
)
NOON = datetime.datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=datetime.UTC)

TEXTS = ("", "Zoë, and more", 'a "quote"', " padded ", "two\nlines", "back\\", '\\"', "null", "'")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        table = database.create_table("people", SCHEMA, splits=[b"p2"])
        dice = random.Random(5)
        for number in range(40):
            values: dict[Any, Any] = {"info:age": number - 20, "anchor:x": b"y%d" % number}
            if number % 2:
                values |= {"info:name": TEXTS[number // 2 % len(TEXTS)]}
                values |= {"info:seen": NOON, "info:score": number / 7}
                values |= {"info:raw": dice.randbytes(3), stele.Column("anchor", b"\xff"): b"\0"}
            table.put(b"p%d" % number, values)
            table.put(b"p%d" % number, {"info:age": number})
        yield database


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("parquet", {}),
        ("json", {"binary": "base64"}),
        ("csv", {"binary": "hex", "columns": ["info:", "anchor:x"]}),
    ],
)
def test_rows_come_back(
    spark: Any, db: stele.Database, tmp_path: Path, kind: str, arguments: dict[str, Any]
) -> None:
    people, path = db.table("people"), str(tmp_path / kind)
    ss.export(spark, people, path, format=kind, **arguments)
    again = db.create_table("again", SCHEMA)
    rule = {"binary": arguments["binary"]} if "binary" in arguments else {}
    report = ss.import_(spark, path, again, format=kind, **rule)
    assert report.rows == 40
    wanted = people.scan(columns=arguments.get("columns")).to_arrow()
    found = again.scan().to_arrow()
    for name in ("row", "family", "qualifier", "value"):
        assert found.column(name).to_pylist() == wanted.column(name).to_pylist(), name


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [("parquet", {}), ("json", {"binary": "hex"}), ("csv", {"binary": "base64"})],
)
def test_cells_come_back_with_all_versions(
    spark: Any, db: stele.Database, tmp_path: Path, kind: str, arguments: dict[str, Any]
) -> None:
    people, path = db.table("people"), str(tmp_path / kind)
    ss.export(spark, people, path, format=kind, shape="cells", versions=None, **arguments)
    again = db.create_table("again", SCHEMA)
    report = ss.import_(spark, path, again, format=kind, job_id="once", **arguments)
    assert ss.import_(spark, path, again, format=kind, job_id="once", **arguments).done_before
    wanted, found = (table.scan(versions=None).to_arrow() for table in (people, again))
    assert report.rows == report.cells == wanted.num_rows
    for name in ("row", "family", "qualifier", "timestamp", "value"):
        assert found.column(name).to_pylist() == wanted.column(name).to_pylist(), name


def test_files_that_do_not_fit_are_refused(spark: Any, db: stele.Database, tmp_path: Path) -> None:
    table = db.create_table("again", SCHEMA)
    (tmp_path / "no-key.csv").write_text("id,info:age\na,1\n")
    with pytest.raises(InvalidArgument, match="no column 'row' of the key; they have id"):
        ss.import_(spark, str(tmp_path / "no-key.csv"), table, format="csv")
    (tmp_path / "wrong.csv").write_text("row,info:age\na,old\n")
    with pytest.raises(SteleError, match=r"'old'.*cannot be cast"):
        ss.import_(spark, str(tmp_path / "wrong.csv"), table, format="csv")
    with pytest.raises(InvalidArgument, match="Spark cannot read"):
        ss.import_(spark, str(tmp_path / "nothing"), table)
    assert not list(table.scan())
