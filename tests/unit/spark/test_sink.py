"""The writer of batch jobs, called as Spark calls it: planned, sent, committed, given up."""

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
from stele.errors import Conflict, InvalidArgument, SteleError, TableNotFound
from stele.spark.sink import PartMessage, SteleWriter, parts_of
from stele.spark.source import SteleDataSource
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from tests.unit.spark.expired_jobs import outlive_jobs
from tests.unit.spark.task_context import running_task, sent

FIELDS = StructType([StructField("id", StringType()), StructField("info:age", LongType())])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        database.create_table("people", stele.Schema(columns={"info:age": "int64"}))
        yield database


def writer(tmp_path: Path, *, overwrite: bool = False, **options: str) -> SteleWriter:
    """As it is after its way to a task."""
    given = {"path": f"{tmp_path}/db#people", "rowColumn": "id", **options}
    made: SteleWriter = SteleDataSource(given).writer(FIELDS, overwrite)
    return sent(made)


def written(sink: SteleWriter, part: int = 0, age: int = 1) -> PartMessage:
    lines = pa.RecordBatch.from_pydict({"id": [f"p{part}"], "info:age": [age]})
    with running_task(part):
        return sink.write(iter([lines]))


def rows(db: stele.Database) -> dict[bytes, Any]:
    return {row.key: row["info:age"] for row in db.table("people").scan()}


def test_what_tasks_answer_is_committed_at_once(db: stele.Database, tmp_path: Path) -> None:
    sink = writer(tmp_path)
    messages = [written(sink, 0), None, written(sink, 1)]
    assert len(parts_of(messages)) == 2
    assert rows(db) == {}
    sink.commit(messages)
    assert rows(db) == {b"p0": 1, b"p1": 1}
    txns = {cell.txn for row in db.table("people").scan() for cell in row.cells}
    assert len(txns) == 1


def test_a_named_write_is_made_once(db: stele.Database, tmp_path: Path) -> None:
    for version, age in ((1, 1), (1, 2), (0, 3), (2, 4)):
        sink = writer(tmp_path, txnAppId="daily", txnVersion=str(version))
        sink.commit([written(sink, 0, age)])
        assert rows(db) == {b"p0": 4 if version == 2 else 1}


def test_an_abort_gives_up_and_takes_nothing_back(db: stele.Database, tmp_path: Path) -> None:
    sink = writer(tmp_path)
    sink.abort([written(sink), None])
    assert rows(db) == {}
    done = writer(tmp_path)
    messages = [written(done)]
    with armed("spark.write.after_commit", fail()), pytest.raises(SteleError):
        done.commit(messages)
    done.abort(messages)  # what Spark does after that
    assert rows(db) == {b"p0": 1}
    db.drop_table("people")
    done.abort(messages)


def test_overwriting_replaces_all_rows(db: stele.Database, tmp_path: Path) -> None:
    db.table("people").put(b"old", {"info:age": 9})
    sink = writer(tmp_path, overwrite=True, truncate="true")
    message = written(sink)
    assert rows(db) == {b"old": 9}
    sink.commit([message])
    assert rows(db) == {b"p0": 1}


def test_a_write_that_outlives_its_lease(db: stele.Database, tmp_path: Path) -> None:
    """Refused as a whole with the remedy, however far it has come; a small one needs no job."""
    count = 60_000
    lines = pa.RecordBatch.from_pydict(
        {"id": [f"p{number:08}" for number in range(count)], "info:age": list(range(count))}
    )
    large, small = (writer(tmp_path, lease="1s") for _ in range(2))
    with running_task(0):
        in_files = large.write(iter([lines]))
    (part,) = parts_of([in_files])
    assert part.files
    inline = written(small)
    outlive_jobs(db)
    assert not any(fragments(tmp_path).joinpath(file.name).exists() for file in part.files)
    with running_task(1):  # a task that knows nothing of it
        late = large.write(iter([lines]))
    with pytest.raises(Conflict, match="nothing of it was written; run it again, with a longer"):
        large.commit([in_files, late])
    large.abort([in_files, late])
    assert rows(db) == {}
    outlive_jobs(db)
    assert list(fragments(tmp_path).glob("i*")) == [], "what tasks have left is garbage"
    small.commit([inline])
    assert rows(db) == {b"p0": 1}


def fragments(tmp_path: Path) -> Path:
    return tmp_path / "db" / FRAGMENT_DIRECTORY


def test_what_does_not_fit_is_refused_before_any_task(db: stele.Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="say so with option"):
        writer(tmp_path, overwrite=True)
    with pytest.raises(InvalidArgument, match="'truncate' is for mode"):
        writer(tmp_path, truncate="true")
    with pytest.raises(InvalidArgument, match="no column 'key'"):
        writer(tmp_path, rowColumn="key")
    with pytest.raises(InvalidArgument, match="no option 'versions'"):
        writer(tmp_path, versions="1")
    with pytest.raises(TableNotFound, match="did you mean 'people'"):
        writer(tmp_path, path=f"{tmp_path}/db#peple")
    assert db.metastore.range(JOBS) == [], "no job was begun for them"
