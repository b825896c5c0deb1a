"""``stele count``."""

from __future__ import annotations

from tests.unit.cli.tables_cli import Shell


def test_rows_are_counted(shell: Shell) -> None:
    assert shell.text("count", "users") == "2\n"
    assert shell.json("count", "users", "--prefix", "a") == {"rows": 1}
    assert shell.json("count", "users", "-c", "info:age") == {"rows": 1}
