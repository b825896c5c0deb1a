"""``stele metastore members``: what it is told, and what it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.test_metastore import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "db", capsys)


def test_a_directory_stays_alone(shell: Shell) -> None:
    (member,) = shell.json("members", "list")
    for words in (("add", "77", "127.0.0.1:1"), ("promote", "77"), ("move", "77", "127.0.0.1:2")):
        assert "stele serve master" in shell.run("members", *words, code=2)
    assert shell.json("members") == [member]


def test_nodes_and_addresses_have_to_be_named(shell: Shell) -> None:
    assert "name the node to promote" in shell.run("members", "promote", code=2)
    assert "address of node 5" in shell.run("members", "add", "5", code=2)
    assert "one member" in shell.run("members", "transfer", code=2)
