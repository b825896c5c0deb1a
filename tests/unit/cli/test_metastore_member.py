"""``stele metastore drain`` and ``bootstrap``: what they are told, and what they ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.test_metastore import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "db", capsys)


def test_the_member_of_a_directory_cannot_step_back(shell: Shell) -> None:
    (member,) = shell.json("members")
    assert "one member" in shell.run("drain", str(member["node"]), code=2)
    assert "not a member" in shell.run("drain", "77", code=1)


def test_the_node_to_begin_with_has_to_be_named(shell: Shell) -> None:
    assert "one --at" in shell.run("bootstrap", code=2)
