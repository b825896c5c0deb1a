"""``stele table``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from tests.unit.cli.tables_cli import Shell


def test_a_table_is_created_with_its_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path / "new", capsys)
    assert "no database" in shell.refused(1, "table", "list")
    words = ["--family", "f", "--column", "f:n=int64", "--key", "tenant=string,day=date"]
    borders = ["--split", '["m"]', "--history", "2h"]
    told = shell.json("table", "create", "t", *words, *borders)
    assert told["schema"]["key"] == [["tenant", "string"], ["day", "date32"]]
    assert len(told["tablets"]) == 2
    shell.text("put", "t", '["acme", "2024-05-01"]', "f:n=7")
    assert shell.lines("scan", "t", "--prefix", '["acme"]') == [
        {"row": ["acme", "2024-05-01"], "columns": {"f:n": 7}}
    ]
    assert "JSON array" in shell.refused(2, "get", "t", "acme")


def test_tables_are_listed_and_shown(shell: Shell) -> None:
    assert shell.text("table", "list") == "users\n"
    assert shell.json("table", "list")[0]["name"] == "users"
    shown = shell.text("table", "show", "users")
    assert "column info:age" in shown
    assert "FRAGMENTS" in shown
    assert shell.json("table", "show", "users")["name"] == "users"


def test_a_schema_can_be_changed(shell: Shell, tmp_path: Path) -> None:
    words = ["table", "alter", "users"]
    assert shell.json(*words, "--column", "info:name=string", "--history", "1d") == {
        "changes": [
            "add-column info:name:  → string",
            "change-history history: 1h → 1d",
        ]
    }
    assert shell.text(*words, "--drop-column", "info:name") == "drop-column info:name: string → \n"
    assert shell.text(*words) == "nothing changes\n"
    file = tmp_path / "schema.json"
    file.write_bytes(schema_to_json(Schema(columns={"info:age": "string"})))
    assert "cannot become string" in shell.refused(2, *words, "--schema", str(file))
    assert "cannot be read" in shell.refused(1, *words, "--schema", str(tmp_path / "none"))
    assert "not declared" in shell.refused(2, *words, "--drop-column", "a:b")
    assert "COLUMN=TYPE" in shell.refused(2, *words, "--column", "a:b")


def test_columns_get_names_for_dataframes(shell: Shell) -> None:
    words = ["table", "alter", "users"]
    named = ["--rename", "info:age=years", "--rename", "info:zip=code"]
    assert "not declared" in shell.refused(2, *words, *named)
    assert "column info:age  int64\n" in shell.text("table", "show", "users"), "nothing of it"
    assert shell.text(*words, "--column", "info:zip=string", *named).splitlines() == [
        "rename-column info:age: info:age → years",
        "add-column info:zip:  → string",
    ]
    shown = shell.text("table", "show", "users")
    assert "column info:age  int64; called years\n" in shown
    assert "column info:zip  string; called code\n" in shown
    assert shell.text(*words, "--rename", "info:age=info:age").startswith("rename-column info:age")
    assert "COLUMN=NAME" in shell.refused(2, *words, "--rename", "info:age")


def test_tables_are_dropped_and_brought_back(shell: Shell) -> None:
    shell.text("table", "drop", "users")
    assert shell.text("table", "list") == "no tables\n"
    assert shell.text("table", "list", "--dropped") == "users\n"
    shell.text("table", "undrop", "users")
    assert shell.text("count", "users") == "2\n"


def test_tablets_are_split_joined_and_compacted(shell: Shell) -> None:
    told = shell.json("table", "split", "users", "b")
    assert [tablet["start"] for tablet in told["tablets"]] == ["", "b"]
    assert len(shell.json("table", "join", "users", "b")["tablets"]) == 1
    assert shell.json("table", "compact", "users")["tablets"][0]["fragments"] == 1


def test_mistakes_are_sentences(shell: Shell) -> None:
    assert "already" in shell.refused(1, "table", "create", "users")
    assert "begins at row" in shell.refused(2, "table", "join", "users", "b")
    code, _, err = shell.run("table", "show", "userz", "--json")
    assert (code, json.loads(err)["error"]) == (1, "TableNotFound")
