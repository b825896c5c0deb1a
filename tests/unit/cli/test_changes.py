"""``stele changes``."""

from __future__ import annotations

import pytest

from tests.unit.cli.tables_cli import Shell


def test_changes_are_lines_and_the_last_says_how_far(shell: Shell) -> None:
    since = shell.lines("changes", "users")[-1]["until"]
    shell.text("put", "users", "ada", "info:age=38")
    shell.text("delete", "users", r"bob\xff")
    shell.text("put", "users", "eve", "info:age=1")
    *lines, end = shell.lines("changes", "users", "--since", str(since), "-c", "info:age")
    found = [(line["type"], line["row"], line["column"], line["value"]) for line in lines]
    assert found == [
        ("update_preimage", "ada", "info:age", 37),
        ("update_postimage", "ada", "info:age", 38),
        ("insert", "eve", "info:age", 1),
    ]
    assert shell.lines("changes", "users", "--since", str(end["until"]))[:-1] == []


def test_every_mutation_can_be_told(shell: Shell) -> None:
    since = shell.lines("changes", "users")[-1]["until"]
    shell.text("put", "users", "ada", "info:age=38")
    shell.text("delete", "users", "ada", "-c", "info:")
    shell.text("delete", "users", "ada")
    *lines, _ = shell.lines("changes", "users", "--since", str(since), "--mode", "all")
    assert [line["type"] for line in lines] == ["put", "erase_family", "erase_row"]
    assert lines[-1]["column"] is None
    text = shell.text("changes", "users", "--since", str(since), "--mode", "all").splitlines()
    assert text[0].startswith("put ada info:age = 38  @")
    assert text[1] == "erase_family ada info:"
    assert text[-2] == "erase_row ada"
    assert text[-1].startswith("up to ")


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ([], {"ada", r"bob\xff"}),
        (["--prefix", "bo"], {r"bob\xff"}),
        (["--end", "b"], {"ada"}),
        (["--limit", "1"], {"ada"}),
    ],
)
def test_some_rows(shell: Shell, words: list[str], rows: set[str]) -> None:
    assert {line["row"] for line in shell.lines("changes", "users", *words)[:-1]} == rows


def test_mistakes_are_sentences(shell: Shell) -> None:
    assert "rising" in shell.refused(2, "changes", "users", "--since", "5", "--until", "3")
    assert "no snapshot" in shell.refused(1, "changes", "users", "--since", "monday")


def test_a_limit_does_not_say_that_all_was_told(shell: Shell) -> None:
    assert "until" in shell.lines("changes", "users", "--limit", "3")[-1]
    *told, last = shell.lines("changes", "users", "--limit", "2")
    assert (len(told), list(last)) == (2, ["more_until"])
    assert "and more, up to" in shell.text("changes", "users", "--limit", "1")
