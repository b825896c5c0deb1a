"""Command lines on tables, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stele.cli.main import main


class Shell:
    """Runs ``stele`` on one database and keeps what it printed."""

    def __init__(self, database: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.database = database
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        code = main([*words, "--db", str(self.database)])
        out, err = self._capsys.readouterr()
        return code, out, err

    def text(self, *words: str) -> str:
        """What a command that works prints."""
        code, out, err = self.run(*words)
        assert (code, err) == (0, "")
        return out

    def json(self, *words: str) -> Any:
        """The one JSON value that a command prints."""
        return json.loads(self.text(*words, "--json"))

    def lines(self, *words: str) -> list[Any]:
        """The lines of JSON that a command prints."""
        return [json.loads(line) for line in self.text(*words, "--json").splitlines()]

    def refused(self, code: int, *words: str) -> str:
        """The one sentence of a command that fails."""
        got, out, err = self.run(*words)
        assert (got, out) == (code, "")
        assert err.startswith("stele: ")
        assert err.count("\n") == 1, "a sentence, not a trace"
        return err
