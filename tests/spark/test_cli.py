"""``stele spark`` as a user types it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stele

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stele", *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_query_over_tables(tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        users = db.create_table("users", stele.Schema(columns={"info:age": "int64"}))
        visits = db.create_table("visits")
        for number in range(10):
            users.put(b"u%d" % number, {"info:age": number})
            visits.put(b"u%d" % number, {"page:home": b"1"})
    query = (
        "SELECT users.row, `info:age` + 1 AS next FROM users JOIN visits USING (row) "
        "WHERE `info:age` > 7 ORDER BY 2"
    )
    found = run("spark", "sql", query, "--db", str(tmp_path), "--master", "local[1]", "--json")
    assert found.returncode == 0, found.stderr
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"row": "u8", "next": 9},
        {"row": "u9", "next": 10},
    ]
