"""``stele put``."""

from __future__ import annotations

import os

import pytest

from tests.unit.cli.tables_cli import Shell


def test_columns_are_written(shell: Shell) -> None:
    txn = shell.json("put", "users", "eve", "info:age=-3", r"info:\x00=a=b", "info:name=")["txn"]
    told = shell.json("get", "users", "eve", "--versions", "1")
    assert {cell["column"]: cell["value"] for cell in told["cells"]} == {
        "info:age": -3,
        r"info:\x00": "a=b",
        "info:name": "",
    }
    assert {cell["timestamp"] for cell in told["cells"]} == {txn}


def test_a_timestamp_can_be_given(shell: Shell) -> None:
    assert shell.text("put", "users", "eve", "f:q=1", "--timestamp", "5").startswith("written")
    assert "@5" in shell.text("get", "users", "eve", "--versions", "1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["eve", "info:age"], "COLUMN=VALUE"),
        (["eve", "info:age=x"], "'info:age'"),
        (["eve", "age=3"], "colon"),
        (["", "info:age=3"], "row key"),
        (["eve", "info:age=3", "info:age=4"], "given twice"),
    ],
)
def test_mistakes_are_sentences(shell: Shell, words: list[str], told: str) -> None:
    assert told in shell.refused(2, "put", "users", *words)


def test_a_key_and_a_column_may_be_any_bytes(shell: Shell) -> None:
    odd = os.fsdecode(b"k\xff")
    shell.text("put", "users", odd, f"info:{odd}={odd}")
    assert shell.json("get", "users", odd) == {
        "row": r"k\xff",
        "columns": {r"info:k\xff": r"k\xff"},
    }
