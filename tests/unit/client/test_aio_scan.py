"""Scans of coroutines: streamed, and let go of when they are left."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from stele.client.aio import AsyncDatabase, AsyncTable
from stele.client.database import Database
from stele.errors import InvalidArgument
from stele.model.schema import Schema
from tests.oracles.model_backend import ModelBackend
from tests.unit.client.databases import over


async def filled(db: Database) -> AsyncTable:
    table = await AsyncDatabase(db).create_table("t", Schema(columns={"f:n": "int64"}))
    async with table.batch() as batch:
        for number in range(20):
            await batch.put(b"%02d" % number, {"f:n": number})
    return table


async def test_rows_and_batches(db: Database) -> None:
    table = await filled(db)
    assert [row["f:n"] async for row in table.scan()] == list(range(20))
    scan = table.scan(shape="rows", reverse=True)
    numbers = [n async for batch in scan.batches() for n in batch.column("f:n").to_pylist()]
    assert numbers == list(range(19, -1, -1))
    assert (await scan.to_arrow()).schema == scan.schema
    assert len(await scan.to_pandas()) == len(await scan.to_polars()) == await scan.count() == 20
    assert (await scan.explain())["rows"] == 20


async def test_a_scan_that_is_left_lets_go() -> None:
    backend = ModelBackend()
    table = await filled(over(backend))
    async with aclosing(table.scan().batches()) as batches:
        await anext(batches)
    scan = backend.table("t").open_scans[-1]
    async with asyncio.timeout(20):
        while not scan.closed:
            await asyncio.sleep(0.001)
    assert scan.closed


async def test_a_cancelled_scan_lets_go() -> None:
    backend = ModelBackend()
    table = await filled(over(backend))
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in table.scan():
            begun.set()
            await asyncio.sleep(3600)

    task = asyncio.ensure_future(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await table.scan().count() == 20


async def test_an_error_comes_through(db: Database) -> None:
    table = await AsyncDatabase(db).create_table("t")
    with pytest.raises(InvalidArgument, match="declare"):
        await table.scan(shape="rows").to_arrow()
