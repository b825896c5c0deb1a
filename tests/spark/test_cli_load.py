"""``stele spark load`` as a user types it: a CSV file becomes a table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stele

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_csv_file_is_loaded(tmp_path: Path) -> None:
    data, db = tmp_path / "people.csv", tmp_path / "db"
    data.write_text("id,age,name\nbob,41,Bob\nada,36,Ada\n")
    schema = stele.Schema(columns={"info:age": "int64", "info:name": "string"})
    with stele.open(db) as database:
        database.create_table("people", schema)
    place = ["--db", str(db), "--master", "local[1]", "--job-id", "day 1", "--family", "info"]
    words = ["spark", "load", "people", str(data), "--format", "csv", "--row", "id", "--json"]
    options = [
        word for one in ("header=true", "inferSchema=true") for word in ("--reader-option", one)
    ]
    found = subprocess.run(
        [sys.executable, "-m", "stele", *words, *options, *place],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert (report["rows"], report["cells"], report["job_id"]) == (2, 4, "day 1")
    with stele.open(db) as database:
        people = database.table("people")
        assert [row["info:age"] for row in people.scan()] == [36, 41]
