"""``stele delete``."""

from __future__ import annotations

from tests.unit.cli.tables_cli import Shell


def test_columns_versions_and_rows_are_erased(shell: Shell) -> None:
    shell.text("delete", "users", "ada", "-c", "info:age", "--until", "10")
    assert len(shell.json("get", "users", "ada", "--versions", "9")["cells"]) == 2
    shell.text("delete", "users", "ada", "-c", "info:age")
    assert shell.json("get", "users", "ada")["columns"] == {"info:name": "Ada"}
    assert shell.json("delete", "users", "ada")["txn"] > 0
    assert "ada" in shell.refused(1, "get", "users", "ada")
