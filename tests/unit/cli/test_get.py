"""``stele get``."""

from __future__ import annotations

import pytest

from tests.unit.cli.tables_cli import Shell


def test_a_row_is_printed(shell: Shell) -> None:
    assert shell.text("get", "users", "ada") == "ada\n  info:age = 37\n  info:name = Ada\n"
    assert shell.json("get", "users", r"bob\xff") == {
        "row": r"bob\xff",
        "columns": {"info:name": r"Bob\x0a"},
    }


def test_versions_and_columns(shell: Shell) -> None:
    told = shell.json("get", "users", "ada", "--versions", "2", "-c", "info:age")
    assert told["cells"] == [
        {"column": "info:age", "timestamp": 20, "value": 37},
        {"column": "info:age", "timestamp": 10, "value": 36},
    ]
    assert "info:age = 36  @10" in shell.text("get", "users", "ada", "--versions", "2")


@pytest.mark.parametrize(
    ("code", "words", "told"),
    [
        (1, ["users", "nobody"], "nobody"),
        (1, ["userz", "ada"], "did you mean 'users'"),
        (1, ["users", "ada", "--at", "no-such-snapshot"], "no-such-snapshot"),
        (2, ["users"], "KEY"),
        (2, ["users", "ada", "--versions", "0"], "number from 1"),
        (2, ["users", "ada", "-c", "age"], "colon"),
        (2, ["users", "\\"], "backslash"),
    ],
)
def test_mistakes_are_sentences(shell: Shell, code: int, words: list[str], told: str) -> None:
    assert told in shell.refused(code, "get", *words)
