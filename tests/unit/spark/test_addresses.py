"""Tables by name: directories become absolute, what names nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import stele
from stele.errors import InvalidArgument, TableNotFound
from stele.spark.addresses import TableAddress


def test_a_directory_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    address = TableAddress.parse("./da#ta#users")
    assert address == TableAddress(str(tmp_path / "da#ta"), "users")
    assert TableAddress.of("data", "users").db == str(tmp_path / "data")


def test_a_cluster_has_a_server_and_a_table() -> None:
    address = TableAddress.parse("stele://127.0.0.1:7420/users")
    assert address == TableAddress("stele://127.0.0.1:7420", "users")
    with pytest.raises(InvalidArgument, match="is a cluster"), address.open():
        pass


@pytest.mark.parametrize("text", ["", "users", "#users", "data#", "stele://host", "stele:///t"])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="names no table"):
        TableAddress.parse(text)


def test_an_empty_part_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="one is empty"):
        TableAddress.of("data", "")


def test_a_table_is_opened_for_a_moment(tmp_path: Path) -> None:
    with stele.open(tmp_path / "data") as db:
        db.create_table("users")
    with TableAddress.of(str(tmp_path / "data"), "users").open() as table:
        assert table.name == "users"
    with (
        pytest.raises(TableNotFound, match="did you mean 'users'"),
        TableAddress.of(str(tmp_path / "data"), "user").open(),
    ):
        pass


def test_no_directory_is_made_by_reading(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    with (
        pytest.raises(InvalidArgument, match="no database in"),
        TableAddress.of(str(missing), "users").open(),
    ):
        pass
    assert not missing.exists()
