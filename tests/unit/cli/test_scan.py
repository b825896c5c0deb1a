"""``stele scan``."""

from __future__ import annotations

import pytest

import stele
from tests.unit.cli.tables_cli import Shell


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["ada", r"bob\xff"]),
        (["--reverse"], [r"bob\xff", "ada"]),
        (["--limit", "1"], ["ada"]),
        (["--start", "b"], [r"bob\xff"]),
        (["--end", "b"], ["ada"]),
        (["--prefix", "bo"], [r"bob\xff"]),
        (["-c", "info:age"], ["ada"]),
    ],
)
def test_rows_are_lines(shell: Shell, words: list[str], expected: list[str]) -> None:
    assert [line["row"] for line in shell.lines("scan", "users", *words)] == expected


def test_the_past_can_be_scanned(shell: Shell) -> None:
    txn = shell.json("put", "users", "eve", "info:age=1")["txn"]
    shell.text("delete", "users", "eve")
    assert len(shell.lines("scan", "users", "--at", str(txn))) == 3
    assert len(shell.lines("scan", "users")) == 2


def test_a_snapshot_that_is_named_like_a_time_is_found(shell: Shell) -> None:
    with stele.open(shell.database) as db:
        db.table("users").snapshot("2024-05-01")
    shell.text("delete", "users", "ada")
    assert len(shell.lines("scan", "users", "--at", "2024-05-01")) == 2
    assert shell.json("count", "users", "--at", "2024-05-01") == {"rows": 2}
    assert shell.json("get", "users", "ada", "--at", "2024-05-01")["row"] == "ada"
    told = shell.lines("changes", "users", "--since", "2024-05-01")
    assert {line["type"] for line in told[:-1]} == {"delete"}
    assert shell.lines("scan", "users", "--at", "2024-05-02") == []


def test_rows_are_readable(shell: Shell) -> None:
    assert shell.text("scan", "users", "-c", "info:age") == "ada\n  info:age = 37\n"
    assert "@10" in shell.text("scan", "users", "--versions", "2")


def test_mistakes_are_sentences(shell: Shell) -> None:
    assert "not both" in shell.refused(2, "scan", "users", "--prefix", "a", "--end", "b")
    assert "row range is empty" in shell.refused(2, "scan", "users", "--start", "b", "--end", "a")
