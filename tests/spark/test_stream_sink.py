"""``writeStream.format("stele")`` with a real Spark: each batch once, whatever fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SCHEMA = stele.Schema(columns={"info:age": "int64"})
DRIVER = str(Path(__file__).with_name("stream_driver.py"))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        database.create_table("people", SCHEMA, splits=[b"p000020"])
        yield database


def arrive(spark: Any, place: Path, first: int, count: int = 20) -> None:
    """More rows for the stream."""
    rows = spark.range(first, first + count, 1, 2)
    rows.selectExpr("concat('p', lpad(cast(id as string), 6, '0')) AS id", "id AS age").write.mode(
        "append"
    ).parquet(str(place))


def stream(spark: Any, place: Path) -> Any:
    reader = spark.readStream.schema("id string, age bigint").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(place))


def start(frame: Any, tmp_path: Path, checkpoint: str = "checkpoint") -> Any:
    writer = frame.writeStream.format("stele").option("rowColumn", "id").option("family", "info")
    writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
    return writer.trigger(availableNow=True).start(f"{tmp_path}/db#people")


def run(frame: Any, tmp_path: Path, checkpoint: str = "checkpoint") -> Any:
    query = start(frame, tmp_path, checkpoint)
    assert query.awaitTermination(300)
    return query


def commits(db: stele.Database) -> int:
    scan = db.table("people").scan(versions=None)
    return len({cell.txn for row in scan for cell in row.cells})


def test_batches_come_once_though_a_worker_is_killed(
    spark: Any, db: stele.Database, tmp_path: Path
) -> None:
    place, marker = tmp_path / "arrivals", str(tmp_path / "killed")
    arrive(spark, place, 0)

    def die_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if not os.path.exists(marker):
                Path(marker).touch()
                os._exit(1)
            yield batch

    frame = stream(spark, place)
    fragile = frame.mapInArrow(die_once, frame.schema)
    failed = start(fragile, tmp_path)
    with pytest.raises(Exception, match=r"(?i)python worker|crashed|EOF"):
        failed.awaitTermination(300)
    assert commits(db) == 0, "no half of a batch"
    query = run(fragile, tmp_path)
    assert [row["info:age"] for row in db.table("people").scan()] == list(range(20))
    batches = commits(db)
    assert batches == 2, "one for each file"
    arrive(spark, place, 20)
    run(fragile, tmp_path)
    last = db.table("people").core.backend.last_numbered(f"query {query.id}")
    assert last is not None
    assert (last.sequence, commits(db)) == (3, 4)


def test_two_queries_into_one_table(spark: Any, db: stele.Database, tmp_path: Path) -> None:
    place = tmp_path / "arrivals"
    arrive(spark, place, 0)
    first = start(stream(spark, place), tmp_path, "one")
    other = stream(spark, place).selectExpr("concat('q', id) AS id", "age")
    second = start(other, tmp_path, "two")
    for query in (first, second):
        assert query.awaitTermination(300)
    assert len(list(db.table("people").scan())) == 40
    for query in (first, second):
        assert db.table("people").core.backend.last_numbered(f"query {query.id}") is not None


def drive(tmp_path: Path, form: str) -> subprocess.CompletedProcess[str]:
    """Run the stream in an application of its own, whose tasks may fail twice."""
    return subprocess.run(
        [sys.executable, DRIVER, "local[2,3]", str(tmp_path), form],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )


def test_another_application_goes_on_from_the_checkpoint(
    spark: Any, db: stele.Database, tmp_path: Path
) -> None:
    """The commit of the first batch takes effect and then fails; a task fails and is retried."""
    arrive(spark, tmp_path / "arrivals", 0)
    died = drive(tmp_path, "losing")
    assert died.returncode != 0
    assert (tmp_path / "failed").exists()
    assert (commits(db), len(list(db.table("people").scan()))) == (1, 10)
    gone = next(iter(db.table("people").scan())).key
    db.table("people").delete(gone)
    done = drive(tmp_path, "stele")
    assert done.returncode == 0, done.stderr
    assert died.stdout != done.stdout, "another application"
    found = [row.key for row in db.table("people").scan()]
    assert len(found) == 19, "the second batch came, and the first not again"
    assert gone not in found


def test_a_batch_is_written_by_hand(spark: Any, db: stele.Database, tmp_path: Path) -> None:
    place = tmp_path / "arrivals"
    arrive(spark, place, 0)
    reports: list[ss.Report] = []

    def each(batch: Any, number: int) -> None:
        reports.extend(
            ss.write(
                batch,
                f"{tmp_path}/db#people",
                row="id",
                family="info",
                app_id="mine",
                version=number,
            )
            for _ in range(2)
        )

    writer = stream(spark, place).writeStream.foreachBatch(each)
    writer = writer.option("checkpointLocation", str(tmp_path / "hand"))
    assert writer.trigger(availableNow=True).start().awaitTermination(300)
    assert [report.done_before for report in reports] == [False, True] * 2
    assert commits(db) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rowColumn": "key"}, "no column 'key'"),
        ({"colour": "red"}, "no option 'colour'"),
        ({"txnAppId": "a", "txnVersion": "1"}, "a stream numbers its batches itself"),
    ],
)
def test_what_makes_no_sense_ends_the_query(
    spark: Any, db: stele.Database, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    place = tmp_path / "arrivals"
    arrive(spark, place, 0, 2)
    given = {"rowColumn": "id", "family": "info", "checkpointLocation": str(tmp_path / "c")}
    writer = stream(spark, place).writeStream.format("stele").options(**(given | options))
    with pytest.raises(Exception, match=said):
        writer.trigger(availableNow=True).start(f"{tmp_path}/db#people").awaitTermination(300)
    assert commits(db) == 0
