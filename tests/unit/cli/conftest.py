"""``shell``: command lines on a database with one small table."""

from __future__ import annotations

from pathlib import Path

import pytest

import stele
from tests.unit.cli.tables_cli import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    with stele.open(tmp_path / "db") as db:
        users = db.create_table("users", stele.Schema(columns={"info:age": "int64"}))
        users.put(b"ada", {"info:name": b"Ada", "info:age": 36}, timestamp=10)
        users.put(b"ada", {"info:age": 37}, timestamp=20)
        users.put(b"bob\xff", {"info:name": b"Bob\n"}, timestamp=10)
    return Shell(tmp_path / "db", capsys)
