"""Tables that somebody still has when they are dropped, brought back, or their name is reused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import stele
from stele.client.aio import AsyncDatabase, AsyncTable
from stele.client.database import Database
from stele.client.table import Table
from stele.errors import TableNotFound, Unavailable

SCANNED_ROWS = 3_000
CELLS = pa.table({"row": [b"w"], "f:q": pa.array([b"v"], pa.binary())})


def commit_transaction(table: Table) -> None:
    with table.transaction(b"a") as row:
        row.put({"f:q": b"3"})


def commit_batch(table: Table) -> None:
    with table.batch() as batch:
        batch.put(b"a", {"f:q": b"3"})


CALLS: dict[str, Callable[[Table], object]] = {
    "put": lambda table: table.put(b"a", {"f:q": b"3"}),
    "delete": lambda table: table.delete(b"a"),
    "batch": commit_batch,
    "write": lambda table: table.write(CELLS),
    "get": lambda table: table.get(b"a"),
    "get in the past": lambda table: table.get(b"a", at="kept"),
    "get_many": lambda table: table.get_many([b"a"]),
    "scan": lambda table: table.scan().count(),
    "scan of the latest": lambda table: list(table.scan(mode="latest")),
    "true mutate_if": lambda table: table.mutate_if(b"a", {"f:q": b"1"}, put={"f:q": b"3"}),
    "false mutate_if": lambda table: table.mutate_if(b"a", {"f:q": b"0"}, put={"f:q": b"3"}),
    "increment": lambda table: table.increment(b"n", "f:n"),
    "append": lambda table: table.append(b"t", "f:t", b"x"),
    "transaction": commit_transaction,
    "tablets": lambda table: table.tablets(),
    "sample_keys": lambda table: table.sample_keys(),
    "split": lambda table: table.split(b"a"),
    "join": lambda table: table.join(b"m"),
    "flush": lambda table: table.flush(),
    "compact": lambda table: table.compact(),
    "truncate": lambda table: table.truncate(),
    "files": lambda table: table.files(),
    "changes": lambda table: table.changes(),
    "snapshot": lambda table: table.snapshot("s"),
    "drop_snapshot": lambda table: table.drop_snapshot("kept"),
    "snapshots": lambda table: table.snapshots(),
    "clone": lambda table: table.clone("copy"),
}


def new_table(db: Database) -> Table:
    table = db.create_table("users", splits=[b"m"])
    table.put(b"a", {"f:q": b"1"})
    table.snapshot("kept")
    return table


def dropped(table: Table, call: Callable[[Table], object]) -> str:
    """What a call on a table that is gone says."""
    with pytest.raises(TableNotFound) as raised:
        call(table)
    return str(raised.value)


@pytest.mark.parametrize("call", CALLS)
def test_every_call_on_a_dropped_table_says_that_it_was_dropped(db: Database, call: str) -> None:
    table = new_table(db)
    with suppress(Unavailable):  # learnt before, as by who goes on: the model has no files
        CALLS[call](table)
    db.drop_table("users")
    message = dropped(table, CALLS[call])
    assert "'users'" in message
    assert table.id not in message


def test_the_names_of_a_dropped_table_are_still_known(db: Database) -> None:
    table = new_table(db)
    before = table.id
    db.drop_table("users")
    assert (table.name, table.id, repr(table)) == ("users", before, "Table('users')")


def test_a_table_that_came_back_is_the_same_to_who_had_it_before(db: Database) -> None:
    old = new_table(db)
    old.flush()
    db.drop_table("users")
    new = db.undrop_table("users")
    new.put(b"a", {"f:q": b"2"})
    row = old.get(b"a")
    assert row is not None
    assert row["f:q"] == b"2"
    old.put(b"b", {"f:q": b"3"})
    assert [row.key for row in old.scan()] == [row.key for row in new.scan()] == [b"a", b"b"]
    assert [old.increment(b"n", "f:n"), old.increment(b"n", "f:n")] == [1, 2]
    assert old.mutate_if(b"a", {"f:q": b"1"}, put={"f:q": b"lost"}) is None
    assert old.mutate_if(b"a", {"f:q": b"2"}, put={"f:q": b"4"}) is not None
    assert old.snapshots() == new.snapshots()
    old.compact()
    old.split(b"b")
    old.join(b"b")
    new.put(b"c", {"f:q": b"5"})
    new.flush()
    new.compact()
    new.split(b"c")
    assert [info.rows for info in old.tablets()] == [info.rows for info in new.tablets()]
    assert [row.key for row in old.scan()] == [b"a", b"b", b"c", b"n"]
    old.truncate()
    assert new.scan().count() == 0


def test_another_table_of_the_name_is_not_seen(db: Database) -> None:
    old = new_table(db)
    db.drop_table("users")
    other = db.create_table("users")
    other.put(b"z", {"f:q": b"9"})
    for call in CALLS.values():
        dropped(old, call)
    assert [row.key for row in other.scan()] == [b"z"]
    assert db.tables() == ["users"]


def test_a_clone_is_of_the_table_that_somebody_has_whatever_it_is_called(db: Database) -> None:
    table = new_table(db)
    db.rename_table("users", "people")
    db.create_table("users").put(b"z", {"f:q": b"9"})
    assert [row.key for row in table.clone("copy").scan()] == [b"a"]


def test_a_row_transaction_over_a_drop_does_not_build_on_what_it_read(db: Database) -> None:
    table = new_table(db)
    with pytest.raises(stele.errors.StaleRow), table.transaction(b"a") as row:  # noqa: PT012
        assert row.get() is not None
        db.drop_table("users")
        db.undrop_table("users").put(b"a", {"f:q": b"2"})
        row.put({"f:q": b"lost"})


@pytest.mark.parametrize("back", [False, True])
def test_t53_a_scan_under_way_ends_with_an_error_when_its_table_is_dropped(
    db: Database, back: bool
) -> None:
    table = new_table(db)
    with table.batch() as batch:
        for number in range(SCANNED_ROWS):
            batch.put(b"r%06d" % number, {"f:q": b"v" * 3_000})
    table.flush()
    rows = iter(table.scan())
    next(rows)
    db.drop_table("users")
    if back:
        db.undrop_table("users")
    with pytest.raises(TableNotFound, match="'users' was dropped"):
        for _ in rows:
            pass


def test_a_process_that_attached_hears_of_what_the_owner_did(tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as owner, stele.open(tmp_path / "db") as attached:
        new_table(owner)
        table = attached.table("users")
        assert table.get(b"a") is not None
        owner.drop_table("users")
        for call in CALLS.values():
            assert "'users'" in dropped(table, call)
        owner.undrop_table("users").put(b"a", {"f:q": b"2"})
        row = table.get(b"a")
        assert row is not None
        assert row["f:q"] == b"2"
        assert [table.increment(b"n", "f:n"), table.increment(b"n", "f:n")] == [1, 2]


def test_an_attached_process_need_not_have_used_a_table_before(tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as owner:
        new_table(owner)
        owner.drop_table("users")
        owner.undrop_table("users")
        with stele.open(tmp_path / "db") as attached:
            table = attached.table("users")
            owner.drop_table("users")
            assert "'users' was dropped" in dropped(table, CALLS["get"])


async def test_coroutines_hear_it_too(db: Database) -> None:
    adb = AsyncDatabase(db)
    table = await adb.create_table("users")
    await table.put(b"a", {"f:q": b"1"})
    await adb.drop_table("users")

    async def scan(table: AsyncTable) -> None:
        await table.scan().count()

    calls = (
        table.put(b"a", {"f:q": b"2"}),
        table.get(b"a"),
        scan(table),
        table.mutate_if(b"a", {"f:q": b"0"}, put={"f:q": b"3"}),
        table.tablets(),
        table.flush(),
        table.snapshots(),
        table.clone("copy"),
    )
    heard = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in heard] == [TableNotFound] * len(calls)
    assert all("'users'" in str(error) for error in heard)
    await adb.undrop_table("users")
    assert await table.get(b"a") is not None
