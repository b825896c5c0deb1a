"""``stele spark`` as a user types it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stele
from stele.cli import exit_codes
from stele.cluster.check import check_directory
from tests.unit.cli.test_check import break_a_split

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stele", *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def check(path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the answer to a program."""
    found = run("check", "--db", str(path), *words, "--json")
    assert found.returncode in (exit_codes.DONE, exit_codes.STOPPED), found.stderr
    return found.returncode, json.loads(found.stdout)


def test_a_check_by_executors_a_repair_and_the_way_back(tmp_path: Path) -> None:
    """Half a split, which can be mended, and a flipped bit, which only reading finds."""
    with stele.open(tmp_path) as db:
        users = db.create_table("users", splits=[b"m"])
        users.put(b"ada", {"info:name": b"Ada" * 50})
        users.flush()
        with users.files() as files:
            path = Path(files.paths()[0])
    break_a_split(tmp_path)
    data = bytearray(path.read_bytes())
    data[8] ^= 1
    path.write_bytes(data)

    planned = [step.what for step in check_directory(str(tmp_path)).plan.steps]
    code, mended = check(tmp_path, "--master", "local[1]", "--repair")
    assert planned
    assert (code, mended["repaired"]) == (exit_codes.STOPPED, planned)
    assert [one["kind"] for one in mended["findings"] if one["severity"] == "damage"] == [
        "damaged-file"
    ]
    assert [one["finding"]["subject"] for one in mended["cannot_repair"]] == [path.name]

    (file,) = mended["undo_files"]
    code, undone = check(tmp_path, "--undo", file)
    assert (code, undone["can_repair"]) == (exit_codes.STOPPED, planned)


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
