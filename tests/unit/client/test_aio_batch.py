"""Buffered writes of coroutines."""

from __future__ import annotations

import asyncio

import pytest

from stele.client.aio import AsyncDatabase
from stele.client.batch import PART_CELLS
from stele.client.database import Database
from stele.errors import InvalidArgument, InvalidCells, OutOfSpace
from stele.model.groups import Group
from stele.model.schema import Schema
from tests.unit.client.databases import over
from tests.unit.client.test_batch import SlowBackend


async def test_a_batch_is_written_at_its_end(db: Database) -> None:
    table = await AsyncDatabase(db).create_table("t")
    async with table.batch() as batch:
        for number in range(PART_CELLS * 2):
            await batch.put(b"%06d" % number, {"f:q": b"v"})
        await batch.delete(b"%06d" % 3)
    assert batch.txn > 0
    assert await table.scan().count() == PART_CELLS * 2 - 1
    with pytest.raises(InvalidArgument, match="ended"):
        await batch.put(b"a", {"f:q": b"v"})


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_an_exception_drops_what_was_not_sent(
    db: Database, error: type[BaseException]
) -> None:
    table = await AsyncDatabase(db).create_table("t")

    async def write() -> None:
        async with table.batch() as batch:
            for number in range(PART_CELLS + 5):
                await batch.put(b"%06d" % number, {"f:q": b"v"})
            raise error

    with pytest.raises(error):
        await write()
    await table.put(b"x", {"f:q": b"v"})
    assert await table.scan().count() == PART_CELLS + 1


async def test_program_order_holds(db: Database) -> None:
    table = await AsyncDatabase(db).create_table("t")
    async with table.batch() as batch:
        await batch.put(b"a", {"f:q": b"1"})
        await batch.delete(b"a")
        await batch.put(b"a", {"f:q": b"2"})
        await batch.put(b"a", {"f:q": b"3"})
    assert (await table.get(b"a"))["f:q"] == b"3"  # type: ignore[index]


async def test_a_refused_part_names_its_rows(db: Database) -> None:
    table = await AsyncDatabase(db).create_table("t", Schema([Group("g", ["f"])]))
    batch = table.batch()
    await batch.put(b"a", {"other:q": b"1"})
    with pytest.raises(InvalidCells, match="rows b'a'"):
        await batch.flush()


async def test_a_failed_part_does_not_take_others_with_it() -> None:
    backend = SlowBackend(failing=(1,))
    refused = 0
    table = await AsyncDatabase(over(backend)).create_table("t")
    async with table.batch() as batch:
        for number in range(PART_CELLS * 12):
            try:
                await batch.put(b"%06d" % number, {"f:q": b"v"})
            except OutOfSpace:
                refused += 1
    assert backend.slow is not None
    assert (refused, backend.slow.parts) == (1, 12)
