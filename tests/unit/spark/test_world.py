"""What an executor sees of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from stele.errors import NotFound
from stele.spark.world import TASKS, files_at, open_database


def test_a_directory_that_is_not_here_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "elsewhere"
    with pytest.raises(NotFound, match=r"does not see.*same path"):
        files_at(str(missing), "users")
    assert not missing.exists(), "a reader makes no directory"


def test_files_that_are_here_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    assert files_at(str(tmp_path), "users").read_all("file") == b"bytes"


def test_a_database_is_opened_as_users_do(tmp_path: Path) -> None:
    with open_database(str(tmp_path)) as database:
        assert database.tables() == []


def test_timers_can_be_cancelled() -> None:
    fired: list[int] = []
    TASKS.call_later(3_600_000_000, lambda: fired.append(1)).cancel()
    assert not fired
