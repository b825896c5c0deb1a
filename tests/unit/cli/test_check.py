"""``stele check``: what it prints, and what it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stele
from stele.cli import exit_codes
from stele.cli.main import main
from stele.cluster.embedded import open_embedded
from stele.env.posix import PosixFileSystem
from stele.tablet.changes import SplitTablet
from stele.tablet.config import ConfigEdit
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with stele.open(tmp_path / "db") as db:
        users = db.create_table("users", splits=[b"m"])
        users.put(b"ada", {"info:name": b"Ada"})
        users.put(b"zoe", {"info:name": b"Zoe"})
    return tmp_path / "db"


def check(path: Path, *words: str) -> int:
    return main(["check", "--db", str(path), *words])


def lose_a_file(path: Path) -> str:
    files = PosixFileSystem(str(path))
    name = next(n for n in files.list(FRAGMENT_DIRECTORY) if ".meta" not in n)
    files.delete(f"{FRAGMENT_DIRECTORY}/{name}")
    return name


@pytest.mark.parametrize("words", [[], ["--deep"], ["--repair"]])
def test_a_sound_database_ends_with_0(
    database: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(database, *words) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines()[-1] == "no damage"


def test_damage_is_named_and_ends_with_5(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = lose_a_file(database)
    assert check(database, "--repair") == exit_codes.STOPPED
    text = capsys.readouterr().out
    assert f"refers to {name}: there is no such file" in text
    assert f"no repair for missing-file at {name}" in text


def test_a_program_gets_json(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = lose_a_file(database)
    assert check(database, "--json") == exit_codes.STOPPED
    answer = json.loads(capsys.readouterr().out)
    assert answer["damaged"] is True
    assert {finding["subject"] for finding in answer["findings"]} == {name}
    assert answer["cannot_repair"]
    assert answer["repaired"] == answer["undo_files"] == answer["can_repair"] == []


def test_an_open_database_is_not_checked(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stele.open(database):
        assert check(database) == exit_codes.FAILED
    assert f"the database in {database} is open" in capsys.readouterr().err


def test_a_missing_database_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path / "none") == exit_codes.FAILED
    assert check(tmp_path) == exit_codes.FAILED
    assert "there is no database" in capsys.readouterr().err


def break_a_split(path: Path) -> None:
    """Leave only the lower half of a split in META."""
    backend = open_embedded(str(path))
    whole = next(iter(backend.store.meta1.configs(backend.table("users").id)))
    edit = SplitTablet(whole.id, b"d", "low", "high").apply({whole.id: whole})
    assert isinstance(edit, ConfigEdit)
    backend.store.meta1.overwrite(ConfigEdit(written=(edit.written[0],)))
    backend.close()


def test_a_repair_is_made_and_taken_back(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_a_split(database)
    assert check(database) == exit_codes.STOPPED
    capsys.readouterr()
    assert check(database, "--repair", "--json") == exit_codes.DONE
    (file,) = json.loads(capsys.readouterr().out)["undo_files"]
    assert check(database, "--undo", file) == exit_codes.STOPPED
    assert "half-split" in capsys.readouterr().out
    assert check(database, "--undo", "repairs/none.json") == exit_codes.FAILED
    assert "no record of a repair" in capsys.readouterr().err
    assert check(database, "--undo", file, "--repair") == exit_codes.USAGE
    capsys.readouterr()
    for words in (["--deep"], ["--master", "local[1]"]):
        assert check(database, "--undo", file, *words) == exit_codes.USAGE
        assert "it goes without --deep and --master" in capsys.readouterr().err
