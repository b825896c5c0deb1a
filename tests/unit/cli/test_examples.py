"""Every example of a help text runs as it stands, and stands in the help of its command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import stele
from stele.cli.commands import COMMANDS, EXAMPLES
from stele.cli.examples import COMMAND_EXAMPLES, epilog
from stele.cli.main import main
from stele.cli.table import ACTIONS

TAUGHT = (
    *("changes", "check", "count", "delete", "get", "operations", "put", "scan"),
    *(f"table {action}" for action in ACTIONS),
)
COLUMNS_MAX = 100
"""As wide as a line of ours; a terminal that is narrower folds it."""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the database that the examples speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STELE_DB", raising=False)
    with stele.open("data") as db:
        users = db.create_table("users", stele.Schema(columns={"info:age": "int64"}))
        users.put(b"ada", {"info:name": b"Ada", "info:age": 36, "notes:1": b"x"})
        users.snapshot("monday")
        users.put(b"bob", {"info:name": b"Bob"})
        db.create_table("old")
        db.drop_table("old")
    return tmp_path


def test_every_command_on_tables_teaches() -> None:
    assert sorted(COMMAND_EXAMPLES) == sorted(TAUGHT)
    assert {name.split()[0] for name in TAUGHT} < COMMANDS.keys()
    assert epilog("version") is None


@pytest.mark.parametrize("command", COMMAND_EXAMPLES)
def test_the_examples_of_a_command_run(
    command: str, shell: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = COMMAND_EXAMPLES[command]
    assert 2 <= len(examples) <= 3
    for example in examples:
        program, *words = shlex.split(example.line)
        assert program == "stele"
        code = main(words)
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), example.line
        assert out, f"{example.line} shows something"
    assert any(example.line.startswith(f"stele {command} ") for example in examples)


def test_the_examples_of_the_program_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [example.line for example in EXAMPLES if "doctor" not in example.line]
    for line in lines:  # what doctor finds depends on the machine
        assert main(shlex.split(line)[1:]) == 0, line
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", COMMAND_EXAMPLES)
def test_they_are_in_the_help_as_they_are(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("examples:")
    for line, example in zip(lines[at + 1 :], COMMAND_EXAMPLES[command], strict=True):
        assert line.startswith(f"  {example.line} ")
        assert line.endswith(example.purpose)
        assert len(line) <= COLUMNS_MAX, line
