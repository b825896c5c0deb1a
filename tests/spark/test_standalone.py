"""A standalone Spark with two workers: executors open the files, from directories of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stele
from tests.spark.standalone import run_driver, standalone
from tests.unit.cluster import crashed_directory

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2_400)]

ROWS = 500
SCHEMA = stele.Schema(columns={"info:n": "int64"})


def found_by(master: str, what: str, directory: Path) -> dict[str, Any]:
    job = run_driver("tests.spark.standalone_job", master, what, str(directory))
    assert job.returncode == 0, job.stderr[-3000:]
    found: dict[str, Any] = json.loads(job.stdout.splitlines()[-1])
    return found


def test_two_workers_read_what_one_process_wrote(tmp_path: Path) -> None:
    with stele.open(tmp_path / "data") as db:
        table = db.create_table("t", SCHEMA, [b"250"])
        plain = db.create_table("plain")
        for number in range(ROWS):
            table.put(b"%03d" % number, {"info:n": number})
            plain.put(b"%03d" % number, {"f:q": b"v"})
        plain.compact()
        table.flush()
        table.put(b"007", {"info:n": 1_007})
        with standalone(tmp_path) as master:
            found = found_by(master, "read", tmp_path / "data")
    assert found["merged"] == [ROWS, sum(range(ROWS)) + 1_000]
    assert (found["native"], found["native_files"]) == (ROWS, 1)


@pytest.mark.slow
def test_two_workers_do_all_kinds_of_jobs(tmp_path: Path) -> None:
    crashed_directory.make(tmp_path / "killed")
    crashed_directory.copied(tmp_path / "killed", tmp_path / "opened")
    with stele.open(tmp_path / "data") as db, standalone(tmp_path) as master:
        table = db.create_table("t", SCHEMA)
        found = found_by(master, "jobs", tmp_path)
        keys = [row.key for row in table.scan()]
        assert keys == [b"%03d" % n for n in range(390)] + [b"s%03d" % n for n in range(10)]
        assert len(table.tablets()) == 2
    assert found == {
        "loaded": 400,
        "written": 50,
        "deleted": 10,
        "streamed": 10,
        "compacted": [True, 0],
        "changes": {"delete": 10, "insert": 10},
        "recovered": True,
    }
    expected = crashed_directory.contents(tmp_path / "opened")
    assert crashed_directory.contents(tmp_path / "killed") == expected
