"""System tables: one line for each thing there is, in the columns that were promised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stele
from stele.errors import InvalidArgument
from stele.spark.system_tables import SYSTEM_TABLES, system_lines


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path) as database:
        table = database.create_table(
            "users", stele.Schema(columns={"info:age": "int64"}), splits=[b"m"]
        )
        table.put(b"ada", {"info:age": 36})
        table.flush()
        table.put(b"zoe", {"info:age": 7})
        database.create_table("gone")
        database.drop_table("gone")
        yield database


def test_tables(db: stele.Database) -> None:
    found = system_lines(db, "tables").to_pylist()
    assert [(line["name"], line["dropped"]) for line in found] == [("users", False), ("gone", True)]
    assert found[0]["columns"] == ["info:age"]


def test_tablets(db: stele.Database) -> None:
    found = system_lines(db, "tablets").to_pylist()
    assert [(line["start_row"], line["end_row"]) for line in found] == [(b"", b"m"), (b"m", None)]
    assert [line["table"] for line in found] == ["users", "users"]


def test_fragments_include_what_is_in_memory(db: stele.Database) -> None:
    found = system_lines(db, "fragments").to_pylist()
    assert [(line["first_row"], line["cells"]) for line in found] == [(b"ada", 1), (b"zoe", 1)]
    assert system_lines(db, "leases").num_rows == 0, "the pin was released"


def test_leases(db: stele.Database) -> None:
    txn = db.table("users").snapshot("before")
    (line,) = system_lines(db, "leases").to_pylist()
    assert (line["txn"], line["expires_us"]) == (txn, None)
    assert line["name"].endswith("before")


def test_jobs(db: stele.Database) -> None:
    users = db.table("users")
    ticket = users.core.backend.begin_import("load-7", 60_000_000)
    (line,) = system_lines(db, "jobs").to_pylist()
    assert (line["job"], line["table_id"], line["state"]) == ("load-7", users.id, "running")
    users.core.backend.abort_import("load-7", ticket.token)
    assert {line["state"] for line in system_lines(db, "jobs").to_pylist()} <= {"aborted"}


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_another_process_sees_the_same(db: stele.Database, name: str, tmp_path: Path) -> None:
    here, attached = system_lines(db, name), system_lines(str(tmp_path), name)
    assert attached.schema == here.schema
    assert attached.num_rows == here.num_rows


def test_what_there_is_not(db: stele.Database) -> None:
    with pytest.raises(InvalidArgument, match="tables, tablets, fragments, leases, jobs"):
        system_lines(db, "servers")
    with pytest.raises(InvalidArgument, match=r"what stele\.open gives"):
        system_lines(7, "tables")  # type: ignore[arg-type]
