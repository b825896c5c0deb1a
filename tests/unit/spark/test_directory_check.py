"""A directory checked by tasks: the same findings and repairs as in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import stele
from stele.cluster.check import check_directory
from stele.errors import DirectoryInUse, InvalidArgument, NotFound
from stele.spark.directory_check import check_database, make_tasks, run_tasks
from stele.tablet.check.findings import Kind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("users", splits=[b"m"])
        for row in (b"a", b"n"):
            table.put(row, {"f:q": b"x" * 100})
            table.flush()
    return tmp_path / "db"


def examined(path: Path, fragments: Sequence[str], logs: Sequence[str]) -> Mapping[str, str]:
    """What executors would say."""
    tasks = make_tasks(str(path), fragments, logs, 3)
    numbers = pa.record_batch({"id": list(range(len(tasks)))})
    lines = [line for batch in run_tasks(tasks, iter([numbers])) for line in batch.to_pylist()]
    return {line["path"]: line["wrong"] for line in lines}


def test_it_finds_what_one_process_finds(path: Path) -> None:
    def examine(fragments: Sequence[str], logs: Sequence[str]) -> Mapping[str, str]:
        assert fragments
        assert logs
        return examined(path, fragments, logs)

    assert not check_directory(str(path), examine=examine).is_damaged
    for file in sorted((path / "fragments").iterdir()):
        data = bytearray(file.read_bytes())
        data[8] ^= 1
        file.write_bytes(data)
    mine = check_directory(str(path), examine=examine, repair=True)
    assert mine == check_directory(str(path), deep=True)
    damaged = [each for each in mine.findings if each.kind is Kind.DAMAGED_FILE]
    assert len(damaged) >= 2
    assert len(mine.plan.refusals) >= 2, "nobody knows what was in them"


def test_logs_are_tasks_and_files_share_some() -> None:
    files = [f"fragments/{number}" for number in range(130)]
    assert len(make_tasks("/x", files, ["log/a", "log/b"], 2)) == 2 + 3
    assert len(make_tasks("/x", files[:1], [], 8)) == 1
    assert make_tasks("/x", [], [], 8) == []


def test_a_damaged_log_is_named(path: Path) -> None:
    (log,) = (each for each in sorted((path / "log").iterdir()) if not each.name.endswith("meta"))
    file = sorted(log.glob("*.log"))[0]
    file.write_bytes(b"x" * 300 + file.read_bytes()[300:])
    found = examined(path, [], [f"log/{log.name}"])
    assert file.name in found[f"log/{log.name}"]


def test_what_cannot_be_checked_here(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is a cluster"):
        check_database(None, "stele://host:1")
    with pytest.raises(NotFound, match="does not see"):
        examined(tmp_path / "missing", ["fragments/x"], [])


def test_a_database_that_is_open_is_not_checked(path: Path) -> None:
    with (
        stele.open(path),
        pytest.raises(
            DirectoryInUse, match=r"a process has .* open.*: close it, .*ss\.check reads"
        ),
    ):
        check_database(None, path)
