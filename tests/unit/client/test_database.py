"""The catalog, over every backend: tables come, change, go and come back."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import stele
from stele.client.database import Database
from stele.errors import (
    AlreadyExists,
    DeadlineExceeded,
    InvalidArgument,
    InvalidSchema,
    StaleHandle,
    TableNotFound,
)
from stele.model.groups import Group
from stele.model.schema import Schema


def test_tables_are_created_and_found(db: Database) -> None:
    created = db.create_table("users", splits=[b"m"])
    assert db.tables() == ["users"]
    assert db.table("users").id == created.id
    assert [info.schema for info in db.catalog()] == [Schema()]
    with pytest.raises(AlreadyExists, match="users"):
        db.create_table("users")
    with pytest.raises(TableNotFound, match="did you mean 'users'"):
        db.table("userz")


def test_a_table_is_cut_at_a_key_once(db: Database) -> None:
    with pytest.raises(InvalidArgument, match=r"splits has b'm' twice"):
        db.create_table("users", splits=[b"m", b"c", b"m"])
    with pytest.raises(InvalidArgument, match=r"splits has 7 twice"):
        db.create_table("users", Schema(key="int64"), splits=[7, 8, 7])
    assert db.tables() == []
    assert len(db.create_table("users", splits=[b"m", b"c"]).tablets()) == 3


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_bad_name_is_refused(db: Database, name: str) -> None:
    with pytest.raises(InvalidArgument):
        db.create_table(name)
    assert db.tables() == []


def test_a_schema_is_a_schema(db: Database) -> None:
    with pytest.raises(InvalidArgument, match="dict"):
        db.create_table("t", {"groups": []})  # type: ignore[arg-type]


def test_altering_keeps_what_it_does_not_name(db: Database) -> None:
    table = db.create_table("t", Schema(columns={"f:a": "int32"}))
    table.put(b"r", {"f:a": 7})
    altered = db.alter_table("t", Schema(columns={"f:a": "int64", "f:b": "string"}))
    assert altered.schema.version == 2
    table.put(b"s", {"f:a": 2**40, "f:b": "x"})
    assert [row["f:a"] for row in table.scan()] == [7, 2**40]
    assert db.alter_table("t", table.schema).schema.version == 2
    with pytest.raises(InvalidSchema, match="f:a"):
        db.alter_table("t", Schema(columns={"f:a": "string"}))


def test_a_declared_column_gets_another_name_and_its_own_again(db: Database) -> None:
    table = db.create_table("t", Schema(columns={"f:a": "int32"}))
    table.put(b"r", {"f:a": 7})
    assert db.rename_column("t", "f:a", "years").schema.version == 2
    assert table.scan(shape="rows").to_arrow().to_pylist() == [{"row": b"r", "years": 7}]
    assert table.get(b"r").to_dict() == {"f:a": 7}  # type: ignore[union-attr]
    with pytest.raises(InvalidArgument, match=r"call column 'f:a': select it as 'f:a'"):
        table.scan(columns=["years"])
    with pytest.raises(InvalidArgument, match=r"call column 'f:a': select it as 'f:a'"):
        table.get(b"r", columns="years")
    with pytest.raises(InvalidArgument, match="has no colon"):
        table.scan(columns=["days"])
    assert db.rename_column("t", "f:a", "years").schema.version == 2, "nothing changes"
    db.rename_column("t", "f:a", "f:a", timeout="5s")
    assert table.scan(shape="rows").to_arrow().column_names == ["row", "f:a"]
    with pytest.raises(InvalidArgument, match="not declared"):
        db.rename_column("t", "f:b", "other")


def test_an_attached_process_renames_columns_too(tmp_path: Path) -> None:
    with stele.open(tmp_path) as owner, stele.open(tmp_path) as attached:
        table = owner.create_table("t", Schema(columns={"f:a": "int32"}))
        attached.rename_column("t", "f:a", "years")
        assert table.schema.columns[0].label == "years"
        with pytest.raises(InvalidSchema, match="would be another"):
            attached.rename_column("t", "f:a", "f:b")


def test_families_move_between_groups(db: Database) -> None:
    table = db.create_table("t", Schema([Group("one", ["a", "b"])]))
    table.put(b"r", {"a:x": b"1", "b:x": b"2"})
    table.flush()
    db.alter_table("t", Schema([Group("one", ["a"]), Group("two", ["b"])]))
    assert table.get(b"r").to_dict() == {"a:x": b"1", "b:x": b"2"}  # type: ignore[union-attr]
    db.alter_table("t", Schema([Group("one", ["a"])]))
    assert table.get(b"r").to_dict() == {"a:x": b"1"}  # type: ignore[union-attr]


def test_a_dropped_table_can_come_back(db: Database) -> None:
    db.create_table("t").put(b"r", {"f:q": b"1"})
    db.drop_table("t")
    assert (db.tables(), db.tables(dropped=True)) == ([], ["t"])
    with pytest.raises(TableNotFound):
        db.table("t")
    assert db.undrop_table("t").get(b"r")["f:q"] == b"1"  # type: ignore[index]
    with pytest.raises(AlreadyExists):
        db.undrop_table("t")


def test_renaming_keeps_the_table(db: Database) -> None:
    table = db.create_table("old")
    table.put(b"r", {"f:q": b"1"})
    renamed = db.rename_table("old", "new")
    assert (renamed.name, table.name, db.tables()) == ("new", "new", ["new"])
    assert renamed.get(b"r") == table.get(b"r")


def test_status_is_numbers(db: Database) -> None:
    db.create_table("t")
    assert db.status()["tables"] == 1


def test_closing_twice_is_harmless(db: Database) -> None:
    db.close()
    db.close()
    with pytest.raises(StaleHandle):
        db.tables()


def test_a_forked_child_is_told_to_open_its_own(db: Database) -> None:
    child = os.fork()
    if not child:
        try:
            db.tables()
        except StaleHandle:
            os._exit(42)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


def test_changes_of_the_catalog_have_timeouts(db: Database) -> None:
    """The same words on every backend; a free catalog is changed at once."""
    db.create_table("t", timeout=60)
    db.alter_table("t", Schema(columns={"f:a": "int64"}), timeout="5s")
    db.rename_table("t", "u", timeout=60)
    db.clone_table("u", "v", timeout=60)
    db.drop_table("u", timeout=60)
    db.undrop_table("u", timeout=datetime.timedelta(seconds=5))
    assert db.tables() == ["u", "v"]
    with pytest.raises(InvalidArgument, match="timeout"):
        db.create_table("w", timeout=-1)


def test_who_is_late_has_changed_nothing_here_or_attached(tmp_path: Path) -> None:
    with stele.open(tmp_path) as owner, stele.open(tmp_path) as attached:
        owner.create_table("t")
        held, over = threading.Event(), threading.Event()

        def change_something() -> None:
            with owner._backend._catalog_changes():  # type: ignore[attr-defined]
                held.set()
                over.wait(120)

        other = threading.Thread(target=change_something)
        other.start()
        assert held.wait(60)
        changes: list[Callable[[Database], object]] = [
            lambda db: db.create_table("u", timeout=0.05),
            lambda db: db.alter_table("t", Schema(columns={"f:a": "int64"}), timeout=0.05),
            lambda db: db.rename_table("t", "u", timeout="50ms"),
            lambda db: db.clone_table("t", "u", timeout=0.05),
            lambda db: db.drop_table("t", timeout=0.05),
            lambda db: db.undrop_table("t", timeout=0.05),
        ]
        for database in (owner, attached):
            for change in changes:
                with pytest.raises(DeadlineExceeded, match="nothing was changed"):
                    change(database)
        over.set()
        other.join()
        assert owner.tables() == attached.tables() == ["t"]
        attached.drop_table("t", timeout=30)
