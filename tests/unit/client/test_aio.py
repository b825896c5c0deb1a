"""The asyncio database does what the blocking one does."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pyarrow as pa
import pytest

import stele
from stele.client.aio import AsyncDatabase, AsyncTable
from stele.client.database import Database
from stele.client.table import Table
from stele.errors import InvalidArgument, StaleHandle, StaleRow, TableNotFound
from stele.model.schema import Schema


@pytest.fixture
def adb(db: Database) -> AsyncDatabase:
    return AsyncDatabase(db)


async def new_table(adb: AsyncDatabase) -> AsyncTable:
    return await adb.create_table("t", Schema(columns={"f:n": "int64"}), splits=[b"m"])


@pytest.mark.parametrize(("ours", "theirs"), [(AsyncTable, Table), (AsyncDatabase, Database)])
def test_the_names_and_arguments_are_the_same(ours: type, theirs: type) -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert calls(ours) == calls(theirs)


async def test_points(adb: AsyncDatabase) -> None:
    table = await new_table(adb)
    txn = await table.put(b"a", {"f:n": 1})
    row = await table.get(b"a")
    assert row is not None
    assert (row["f:n"], row.cells[0].txn) == (1, txn)
    await table.delete(b"a")
    assert (await table.get_many([b"a"])).found() == []
    assert await table.mutate_if(b"a", {"f:n": None}, put={"f:n": 5})
    assert await table.increment(b"a", "f:n", 2) == 7
    assert await table.append(b"a", "f:raw", b"x") == b"x"
    with pytest.raises(InvalidArgument):
        await table.put(b"a", {"f:n": "x"})
    assert (table.name, repr(table)) == ("t", "AsyncTable('t')")


async def test_many_puts_at_a_time(adb: AsyncDatabase) -> None:
    table = await new_table(adb)
    await asyncio.gather(*(table.put(b"%d" % n, {"f:n": n}) for n in range(100)))
    assert await table.scan().count() == 100


async def test_transactions(adb: AsyncDatabase) -> None:
    table = await new_table(adb)
    async with table.transaction(b"a") as transaction:
        assert await transaction.get() is None
        transaction.put({"f:n": 1})
    assert transaction.txn == (await table.get(b"a")).cells[0].txn  # type: ignore[union-attr]

    async def lose() -> None:
        async with table.transaction(b"a") as transaction:
            await transaction.get()
            await table.put(b"a", {"f:n": 2})
            transaction.delete()

    with pytest.raises(StaleRow):
        await lose()
    assert (await table.get(b"a"))["f:n"] == 2  # type: ignore[index]


async def test_whole_tables(adb: AsyncDatabase) -> None:
    table = await new_table(adb)
    await table.write(pa.table({"row": ["a", "z"], "f:n": [1, 2]}))
    assert len(await table.tablets()) == 2
    await table.split(b"q")
    await table.join(b"q")
    await table.flush()
    await table.compact()
    assert await table.sample_keys(1) is not None
    await table.snapshot("s")
    assert (await table.snapshots()).keys() == {"s"}
    await table.drop_snapshot("s")
    clone = await table.clone("u")
    await table.truncate()
    assert (await table.scan().count(), await clone.scan().count()) == (0, 2)
    assert (await adb.clone_table("u", "v")).id != clone.id


async def test_files(tmp_path: Path) -> None:
    async with AsyncDatabase(stele.open(tmp_path)) as adb:
        table = await new_table(adb)
        txn = await table.put(b"a", {"f:n": 1})
        with await table.files() as files:
            assert files.txn >= txn
            assert files.rest().num_rows + len(files.paths()) == 1


async def test_the_catalog(adb: AsyncDatabase) -> None:
    table = await new_table(adb)
    assert (await adb.alter_table("t", table.schema.replace(history="2h"))).schema.version == 2
    assert (await adb.rename_table("t", "u")).id == table.id
    await adb.drop_table("u")
    assert (await adb.tables(), await adb.tables(dropped=True)) == ([], ["u"])
    assert (await adb.undrop_table("u")).name == (await adb.catalog())[0].name
    assert (await adb.status())["tables"] == 1
    with pytest.raises(TableNotFound):
        await adb.table("nobody")


async def test_closing(db: Database) -> None:
    async with AsyncDatabase(db) as adb:
        table = await new_table(adb)
    with pytest.raises(StaleHandle):
        await table.put(b"a", {"f:n": 1})


async def test_changes_of_the_catalog_have_timeouts(adb: AsyncDatabase) -> None:
    await adb.create_table("t", timeout=60)
    await adb.alter_table("t", Schema(columns={"f:a": "int64"}), timeout="5s")
    renamed = await adb.rename_column("t", "f:a", "years", timeout=60)
    assert renamed.schema.columns[0].label == "years"
    await adb.rename_table("t", "u", timeout=60)
    await adb.clone_table("u", "v", timeout=60)
    await adb.drop_table("u", timeout=60)
    await adb.undrop_table("u", timeout=60)
    assert await adb.tables() == ["u", "v"]
    with pytest.raises(InvalidArgument, match="timeout"):
        await adb.drop_table("u", timeout=-1)


async def test_what_is_closed_says_so(adb: AsyncDatabase) -> None:
    table = await new_table(adb)
    await adb.close()
    await adb.close()
    for call in (
        lambda: table.get(b"a"),
        lambda: table.put(b"a", {"f:n": 1}),
        lambda: table.write(pa.table({"row": ["a"], "f:n": [1]})),
        adb.tables,
    ):
        with pytest.raises(StaleHandle, match="closed"):
            await call()
