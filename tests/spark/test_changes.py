"""Change feeds through a real Spark: batches, streams, and how Spark treats them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from tests.spark.tables import SCHEMA, random_course

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

AGES = stele.Schema(columns={"info:age": "int64"})
Ages = dict[bytes, int]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def db(path: str) -> Iterator[stele.Database]:
    with stele.open(path) as database:
        yield database


def feed(spark: Any, path: str, table: str, **options: str) -> Any:
    given = {"db": path, "table": table, "changes": "net", **options}
    return spark.readStream.format("stele").options(**given).load()


def ages(table: stele.Table) -> Ages:
    return {row.key: row["info:age"] for row in table.scan(columns=["info:age"])}


class Copy:
    """What a stream has told, and the table that follows from it."""

    def __init__(self, frame: Any, checkpoint: Path) -> None:
        self.frame = frame
        self.checkpoint = checkpoint
        self.rows: Ages = {}
        self.batches: list[int] = []
        self.failure: Exception | None = None

    def run(self, **trigger: Any) -> None:
        """Follow the table up to now."""
        writer = self.frame.writeStream.option("checkpointLocation", str(self.checkpoint))
        writer = writer.foreachBatch(self._apply)
        query = (writer.trigger(**trigger) if trigger else writer).start()
        try:
            query.awaitTermination() if trigger else query.processAllAvailable()
        finally:
            query.stop()

    def _apply(self, lines: Any, _batch: int) -> None:
        found = lines.collect()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.batches.append(len(found))
        for line in found:
            key, age = bytes(line["row"]), line["info:age"]
            if line["_change_type"] in ("delete", "update_preimage"):
                assert self.rows.pop(key) == age
        for line in found:
            if line["_change_type"] in ("insert", "update_postimage"):
                assert bytes(line["row"]) not in self.rows
                self.rows[bytes(line["row"])] = line["info:age"]


def test_a_frame_tells_what_happened_to_a_table(spark: Any, db: stele.Database) -> None:
    dice = random.Random(5)
    table = db.create_table("t", SCHEMA, splits=[b"\x50"])
    random_course(table, dice, 80)
    since = table.snapshot("before")
    random_course(table, dice, 80)
    until = table.snapshot("after")
    random_course(table, dice, 20)
    net = ss.changes(spark, table, since="before", until=until, shape="cells", versions=None)
    was, now = (
        {(c.row, c.family, c.qualifier, c.timestamp, c.value) for row in rows for c in row.cells}
        for rows in (table.scan(at=moment, versions=None) for moment in (since, until))
    )
    names = ("row", "family", "qualifier", "timestamp", "value")
    told: dict[bool, set[tuple[Any, ...]]] = {True: set(), False: set()}
    for line in net.collect():
        came = line["_change_type"] in ("insert", "update_postimage")
        cell = tuple(
            bytes(x) if isinstance(x, bytearray) else x for x in map(line.__getitem__, names)
        )
        told[came].add(cell)
        assert since < line["_commit_version"] <= until
    assert told == {True: now - was, False: was - now}
    everything = ss.changes(spark, table, since=0, until=until, changes="all", partitions=3)
    copy = db.create_table("copy", SCHEMA)
    lines = sorted(everything.collect(), key=lambda line: line["_commit_version"])
    for _, commit in groupby(lines, key=lambda line: line["_commit_version"]):
        replay(copy, list(commit))
    again = {
        (c.row, c.family, c.qualifier, c.timestamp, c.value)
        for row in copy.scan(versions=None)
        for c in row.cells
    }
    assert again == now


def replay(table: stele.Table, commit: list[Any]) -> None:
    """One commit again: what a program would do with the lines of ``all``."""
    with table.batch() as batch:
        for line in commit:
            row, kind = bytes(line["row"]), line["_change_type"]
            if kind == "put":
                column = stele.Column(line["family"], bytes(line["qualifier"]))
                typed = table.schema.typed_column(column)
                value: Any = bytes(line["value"])
                value = value if typed is None else typed.decode(value)
                batch.put(row, {column: value}, timestamp=line["timestamp"])
            elif kind == "erase_row":
                batch.delete(row)
            elif kind == "erase_family":
                batch.delete(row, columns=[f"{line['family']}:"])
            else:
                batch.delete(row, columns=[stele.Column(line["family"], bytes(line["qualifier"]))])


def test_a_stream_is_cut_stopped_and_resumed(
    spark: Any, db: stele.Database, path: str, tmp_path: Path
) -> None:
    table = db.create_table("t", AGES)
    for number in range(20):
        table.put(b"%02d" % number, {"info:age": number})
    copy = Copy(feed(spark, path, "t", maxRowsPerTrigger="8"), tmp_path / "checkpoint")
    copy.run(availableNow=True)
    assert copy.batches == [8, 8, 4]
    assert copy.rows == ages(table)
    table.split(b"10")
    table.put(b"03", {"info:age": 300})
    table.delete(b"15")
    table.compact()
    table.put(b"new", {"info:age": 1})
    copy.run(availableNow=True)
    assert copy.batches[3:] == [4]
    assert copy.rows == ages(table)
    copy.failure = RuntimeError("the sink is away")
    table.join(b"10")
    table.put(b"03", {"info:age": 301})
    with pytest.raises(Exception, match="the sink is away"):
        copy.run()
    table.put(b"04", {"info:age": 400})
    table.compact()
    copy.run()
    assert copy.batches[4:] == [2, 2], "the batch that failed, then what came since"
    assert copy.rows == ages(table)


def test_a_table_that_was_made_anew_is_not_followed(
    spark: Any, db: stele.Database, path: str, tmp_path: Path
) -> None:
    table = db.create_table("t", AGES)
    table.put(b"old", {"info:age": 1})
    copy = Copy(feed(spark, path, "t"), tmp_path / "checkpoint")
    copy.run(availableNow=True)
    db.drop_table("t")
    again = db.create_table("t", AGES)
    again.put(b"new", {"info:age": 2})
    with pytest.raises(Exception, match=r"'t' is another table than .* with a new checkpoint"):
        Copy(feed(spark, path, "t"), tmp_path / "checkpoint").run(availableNow=True)
    fresh = Copy(feed(spark, path, "t"), tmp_path / "other")
    fresh.run(availableNow=True)
    assert fresh.rows == {b"new": 2}


def test_options_make_a_feed_of_a_plain_read(spark: Any, db: stele.Database, path: str) -> None:
    table = db.create_table("t", AGES)
    first = table.put(b"a", {"info:age": 1})
    last = table.put(b"a", {"info:age": 2})
    table.put(b"a", {"info:age": 3})
    reader = spark.read.format("stele").options(db=path, table="t")
    frame = reader.options(changes="all", startingVersion=str(last), endingVersion=str(last)).load()
    assert [line["_commit_version"] for line in frame.collect()] == [last]
    spark.sql(
        f"CREATE TEMPORARY VIEW feed USING stele OPTIONS (db '{path}', table 't', changes 'net', "
        f"startingVersion '{first + 1}', endingVersion '{last}')"
    )
    query = "SELECT `info:age` age FROM feed WHERE _change_type = 'update_postimage'"
    assert [line.age for line in spark.sql(query).collect()] == [2]


def test_what_cannot_be_told_is_said_in_a_sentence(
    spark: Any, db: stele.Database, path: str, tmp_path: Path
) -> None:
    table = db.create_table("t", AGES)
    since = table.put(b"a", {"info:age": 1})
    table.truncate()
    copy = Copy(feed(spark, path, "t", startingVersion=str(since + 1)), tmp_path / "checkpoint")
    with pytest.raises(Exception, match=r"has forgotten some of the changes after .*again from 0"):
        copy.run(availableNow=True)
    with pytest.raises(Exception, match="is for batches of changes"):
        Copy(feed(spark, path, "t", endingVersion="5"), tmp_path / "other").run(availableNow=True)
    plain = spark.readStream.format("stele").options(db=path, table="t").load()
    with pytest.raises(Exception, match="a stream of format 'stele' is a feed of changes"):
        Copy(plain, tmp_path / "plain").run(availableNow=True)


def test_from_the_shell(tmp_path: Path, db: stele.Database, path: str) -> None:
    table = db.create_table("t", AGES)
    since = table.put(b"a", {"info:age": 1})
    table.put(b"a", {"info:age": 2})
    words = ["spark", "changes", "t", str(tmp_path / "out"), "--since", str(since), "--json"]
    words += ["--format", "json", "--db", path, "--master", "local[1]"]
    done = subprocess.run(
        [sys.executable, "-m", "stele", *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["lines"], told["until"] > since) == (2, True)
    lines = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.open()]
    assert sorted((line["_change_type"], line["info:age"]) for line in lines) == [
        ("update_postimage", 2),
        ("update_preimage", 1),
    ]
