"""The writer of streams, called as Spark calls it: one for the tasks, another for the commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import stele
from stele.coordination.on_metastore import JOBS
from stele.env.failpoints import armed, fail
from stele.errors import Conflict, InvalidArgument, SteleError
from stele.model.numbered_writes import LastWrite
from stele.spark.source import SteleDataSource
from stele.spark.stream_sink import BatchMessage, SteleStreamWriter
from tests.unit.spark.expired_jobs import outlive_jobs
from tests.unit.spark.task_context import running_task, sent

FIELDS = StructType([StructField("id", StringType()), StructField("info:age", LongType())])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        database.create_table("people", stele.Schema(columns={"info:age": "int64"}))
        yield database


def new_writer(tmp_path: Path, *, overwrite: bool = False, **options: str) -> SteleStreamWriter:
    given = {"path": f"{tmp_path}/db#people", "rowColumn": "id", **options}
    made: SteleStreamWriter = SteleDataSource(given).streamWriter(
        schema=FIELDS, overwrite=overwrite
    )
    return made


def run_tasks(
    tmp_path: Path, batch: int, age: int, query: str = "q1", parts: int = 2
) -> list[BatchMessage | None]:
    """The tasks of one batch."""
    planned = new_writer(tmp_path, checkpointLocation="/somewhere")
    sent(planned)  # Spark sends it twice
    writer = sent(planned)
    messages: list[BatchMessage | None] = []
    for part in range(parts):
        lines = pa.RecordBatch.from_pydict({"id": [f"p{part}"], "info:age": [age]})
        with running_task(part, sql_streaming_queryId=query, streaming_sql_batchId=str(batch)):
            messages.append(writer.write(iter([lines])))
    return messages


def ages(db: stele.Database) -> list[Any]:
    return [row["info:age"] for row in db.table("people").scan()]


def jobs(db: stele.Database) -> int:
    return len(db.metastore.range(JOBS))


def test_each_batch_is_one_commit_whichever_process_makes_it(
    db: stele.Database, tmp_path: Path
) -> None:
    for batch in range(3):
        messages = run_tasks(tmp_path, batch, age=batch)
        new_writer(tmp_path).commit(messages, batch)
        assert ages(db) == [batch, batch]
    last = db.table("people").core.backend.last_numbered("query q1")
    assert last is not None
    assert last == LastWrite(2, last.txn)
    assert jobs(db) == 0, "a stream leaves one cell behind, whatever it has written"


def test_a_batch_that_is_replayed_is_not_made_again(db: stele.Database, tmp_path: Path) -> None:
    messages = run_tasks(tmp_path, 7, age=1)
    failing = new_writer(tmp_path)
    with armed("spark.write.after_commit", fail()), pytest.raises(SteleError):
        failing.commit(messages, 7)
    new_writer(tmp_path).abort(messages, 7)
    assert ages(db) == [1, 1]
    db.table("people").delete(b"p0")
    new_writer(tmp_path).commit(run_tasks(tmp_path, 7, age=2), 7)
    assert ages(db) == [1], "what was deleted since does not come back"
    new_writer(tmp_path).commit(run_tasks(tmp_path, 7, age=3, query="q2"), 7)
    assert ages(db) == [3, 3], "another query has batches of its own"


def test_nothing_to_write(db: stele.Database, tmp_path: Path) -> None:
    new_writer(tmp_path).commit([], 0)
    new_writer(tmp_path).abort([None], 0)
    assert ages(db) == []


def test_an_abort_forgets_the_job(db: stele.Database, tmp_path: Path) -> None:
    messages = run_tasks(tmp_path, 0, age=1)
    assert jobs(db) == 1
    new_writer(tmp_path).abort([None, *messages], 0)
    assert jobs(db) == 0


def test_what_makes_no_sense_for_a_stream(db: stele.Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a stream numbers its batches itself"):
        new_writer(tmp_path, txnAppId="a", txnVersion="1")
    with pytest.raises(InvalidArgument, match="'complete'"):
        new_writer(tmp_path, overwrite=True)
    with pytest.raises(InvalidArgument, match="no column 'key'"):
        new_writer(tmp_path, rowColumn="key")
    writer = sent(new_writer(tmp_path))
    with running_task(), pytest.raises(InvalidArgument, match="no task of a stream"):
        writer.write(iter([]))
    assert ages(db) == []


def test_a_batch_that_outlives_its_lease_is_replayed(db: stele.Database, tmp_path: Path) -> None:
    count = 60_000
    lines = pa.RecordBatch.from_pydict(
        {"id": [f"p{number:08}" for number in range(count)], "info:age": list(range(count))}
    )
    task = sent(new_writer(tmp_path, lease="1s"))
    with running_task(0, sql_streaming_queryId="q1", streaming_sql_batchId="7"):
        message = task.write(iter([lines]))
    outlive_jobs(db)
    with pytest.raises(Conflict, match="run it again, with a longer lease"):
        new_writer(tmp_path).commit([message], 7)
    assert ages(db) == []
    new_writer(tmp_path).commit(run_tasks(tmp_path, 7, age=3), 7)
    assert ages(db) == [3, 3]
