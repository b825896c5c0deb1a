"""``stele spark load`` as a user types it: a CSV file becomes a table."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import stele

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


LOCAL = ["--master", "local[1]"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stele", "spark", *words, *LOCAL],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def told(found: subprocess.CompletedProcess[str]) -> str:
    """What a command that refuses says: one sentence of ours, and no stack of anybody's."""
    assert found.returncode not in (0, 70), found.stderr
    assert "\tat " not in found.stderr
    assert "Traceback" not in found.stderr
    ours = [line for line in found.stderr.splitlines() if line.startswith("stele: ")]
    assert len(ours) == 1, found.stderr
    return ours[0]


@pytest.fixture
def db(tmp_path: Path) -> str:
    schema = stele.Schema(
        columns={"info:age": "int64", "info:name": "string", "info:paid": "decimal(8,2)"},
        key="int32",
    )
    with stele.open(tmp_path / "db") as database:
        database.create_table("people", schema)
    return str(tmp_path / "db")


def test_a_csv_file_is_loaded_in_the_types_of_the_table_and_looked_up(
    tmp_path: Path, db: str
) -> None:
    data = tmp_path / "people.csv"
    data.write_text("id,age,name,paid\n2,41,Bob,1.25\n1,,Ada,17\n")
    csv = ["--format", "csv", "--reader-option", "header=true", "--row", "id", "--db", db]
    loading = [*csv, "--family", "info", "--job-id", "day 1", "--split", "2"]
    found = run("load", "people", str(data), *loading, "--json")
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert (report["rows"], report["cells"], report["job_id"]) == (2, 5, "day 1")
    with stele.open(db) as database:
        people = database.table("people")
        assert [(row.typed_key, row.to_dict()) for row in people.scan()] == [
            (1, {"info:name": "Ada", "info:paid": Decimal("17.00")}),
            (2, {"info:age": 41, "info:name": "Bob", "info:paid": Decimal("1.25")}),
        ]
        assert len(people.tablets()) == 2
    keys = tmp_path / "keys.csv"
    keys.write_text("n,id\na,2\nb,7\n")
    looked = run("lookup", "people", str(keys), *csv, "-c", "info:age", "--json")
    assert looked.returncode == 0, looked.stderr
    lines = [json.loads(line) for line in looked.stdout.splitlines()]
    assert sorted(lines, key=lambda line: str(line["n"])) == [
        {"n": "a", "id": 2, "info:age": 41},
        {"n": "b", "id": 7, "info:age": None},
    ]


def test_files_that_do_not_fit_are_told_in_one_sentence(tmp_path: Path, db: str) -> None:
    data = tmp_path / "people.csv"
    data.write_text("id,age,paid\n1,36,2.50\n2,forty,1.255\n")
    place = ["people", str(data), "--row", "id", "--family", "info", "--db", db]
    csv = ["--format", "csv", "--reader-option", "header=true"]
    assert "column age has a text that is no bigint: forty" in told(run("load", *place, *csv))
    data.write_text("id,age,paid\n1,36,2.50\n2,40,1.255\n")
    assert "column paid has a text that is no decimal(8,2)" in told(run("write", *place, *csv))
    assert "if it is csv, say so as the format" in told(run("load", *place))
