"""``stele.aio.open`` gives a database for coroutines, in a directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stele
from stele.errors import DirectoryInUse


async def test_a_database_is_opened_and_reopened(tmp_path: Path) -> None:
    async with await stele.aio.open(tmp_path / "db") as db:
        table = await db.create_table("t")
        await table.put(b"a", {"f:q": b"1"})
        with pytest.raises(DirectoryInUse):
            await stele.aio.open(tmp_path / "db", attach=False)
        async with await stele.aio.open(tmp_path / "db") as attached:
            row = await (await attached.table("t")).get(b"a")
            assert row is not None
            assert row["f:q"] == b"1"
    async with await stele.aio.open(tmp_path / "db") as db:
        row = await (await db.table("t")).get(b"a")
        assert row is not None
        assert row["f:q"] == b"1"


async def test_whoever_is_cancelled_while_it_opens_leaves_nothing_open(tmp_path: Path) -> None:
    opening = asyncio.ensure_future(stele.aio.open(tmp_path / "db"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    while True:  # until it is open, and closed again
        try:
            async with await stele.aio.open(tmp_path / "db", attach=False) as db:
                assert await db.tables() == []
                return
        except DirectoryInUse:
            await asyncio.sleep(0.01)


def test_every_public_name_is_there() -> None:
    for module in (stele, stele.aio):
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert set(stele.__all__) == set(dir(stele))
    with pytest.raises(AttributeError, match="nonsense"):
        stele.nonsense  # noqa: B018
