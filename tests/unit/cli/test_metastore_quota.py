"""``stele metastore quota``: what it says, and what it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stele.cli.metastore_quota import limit_bytes
from stele.errors import InvalidArgument
from tests.unit.cli.test_metastore import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "db", capsys)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", 0),
        ("1000000", 1_000_000),
        ("64KB", 65_536),
        ("512MB", 512 << 20),
        ("2 gb", 2 << 30),
        ("7B", 7),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert limit_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5MB", "lots", "5K", "MB", "1TB", "9" * 16])
def test_what_is_no_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a size"):
        limit_bytes(text)


def test_the_metastore_of_a_database_has_none(shell: Shell) -> None:
    shell.run("put", "/a", "1")
    found = shell.json("quota")
    assert found["quota_bytes"] is None
    assert found["keys"] >= 1
    assert found["alarms"] == {}
    assert "could not even be opened" in shell.run("quota", "1MB", code=2)
    assert "quota   none" in shell.run("quota", "--clear-alarm", "0")
    assert "is not a size" in shell.run("quota", "some", code=2)
    assert "not allowed with" in shell.run("quota", "1MB", "--clear-alarm", "0", code=2)


def test_its_help_teaches(shell: Shell) -> None:
    said = shell.run("quota", "--help")
    for word in ("512MB", "90 %", "--clear-alarm", "history", "OutOfSpace"):
        assert word in said
