"""A backup is a finished, right copy; a restored table has every cell that could be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stele
from stele.errors import AlreadyExists, Corruption, InvalidArgument
from stele.spark import backups
from stele.spark.backups import FILES_DIRECTORY, PLAN_FILE, backup, read_plan, restore


class HereSession:
    """Runs the tasks of a job in this process, as Spark would in others; then once more, as Spark
    may, too."""

    def __call__(
        self, _spark: object, tasks: list[bytes], work: Callable[..., Iterator[pa.RecordBatch]]
    ) -> list[bytes]:
        numbers = pa.record_batch({"id": list(range(len(tasks)))})
        for attempt in (0, 1):
            batches = work(tasks, attempt, iter([numbers]))
            answers = [answer for batch in batches for answer in batch.column(0).to_pylist()]
        return answers


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "_run", HereSession())


SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"]), stele.Group("rest")], columns={"info:age": "int64"}
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        table = database.create_table("users", SCHEMA, splits=[b"u5"])
        for number in range(10):
            table.put(b"u%d" % number, {"info:age": number, "x:y": b"1"}, timestamp=5)
            table.put(b"u%d" % number, {"info:age": -number}, timestamp=9)
        table.compact()
        table.delete(b"u3")
        table.put(b"u4", {"x:z": b"new"})
        yield database


def cells(table: stele.Table) -> list[tuple[Any, ...]]:
    found = table.scan(versions=None).to_arrow()
    names = ("row", "family", "qualifier", "timestamp", "value")
    return list(zip(*(found.column(name).to_pylist() for name in names), strict=True))


def test_there_and_back(db: stele.Database, tmp_path: Path) -> None:
    users = db.table("users")
    done = backup(None, users, str(tmp_path / "backup"))
    assert done.files == len(os.listdir(tmp_path / "backup" / FILES_DIRECTORY)) > 0
    wanted = cells(users)
    users.truncate()
    restored = restore(None, str(tmp_path / "backup"), db, "again")
    assert cells(db.table("again")) == wanted
    assert restored.cells == len(wanted)
    assert [tablet.rows for tablet in db.table("again").tablets()] == [
        tablet.rows for tablet in users.tablets()
    ]
    restore(None, str(tmp_path / "backup"), str(tmp_path / "new"), "users")
    with stele.open(tmp_path / "new") as other:
        assert cells(other.table("users")) == wanted
        assert other.table("users").schema == SCHEMA


def test_a_snapshot_of_the_past_and_an_empty_table(db: stele.Database, tmp_path: Path) -> None:
    users = db.table("users")
    txn, wanted = users.snapshot("before"), cells(users)
    users.delete(b"u1")
    assert backup(None, users, str(tmp_path / "old"), at="before").txn == txn
    restore(None, str(tmp_path / "old"), db, "old")
    assert cells(db.table("old")) == wanted
    db.create_table("empty")
    backup(None, db.table("empty"), str(tmp_path / "empty"))
    assert restore(None, str(tmp_path / "empty"), db, "empty2").cells == 0


def test_what_is_no_backup(db: stele.Database, tmp_path: Path) -> None:
    path = tmp_path / "backup"
    backup(None, db.table("users"), str(path))
    with pytest.raises(AlreadyExists, match="a new directory"):
        backup(None, db.table("users"), str(path))
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="no backup can be made"):
        backup(None, db.table("users"), str(tmp_path / "file"))
    with pytest.raises(AlreadyExists, match="users"):
        restore(None, str(path), db, "users")
    data = (path / PLAN_FILE).read_bytes()
    (path / PLAN_FILE).write_bytes(data[:-1] + b"\0\0")
    with pytest.raises(Corruption, match="plan of a backup"):
        read_plan(str(path))
    (path / PLAN_FILE).unlink()
    with pytest.raises(InvalidArgument, match="not finished"):
        restore(None, str(path), db, "again")


def test_damage_leaves_no_half_restored_table(db: stele.Database, tmp_path: Path) -> None:
    path = tmp_path / "backup"
    backup(None, db.table("users"), str(path))
    for file in (path / FILES_DIRECTORY).iterdir():
        data = bytearray(file.read_bytes())
        data[8] ^= 1
        file.write_bytes(data)
    with pytest.raises(Corruption):
        restore(None, str(path), db, "again")
    assert db.tables() == ["users"]
