"""The metastore of an open database, for coroutines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stele
from stele.client.metastore_threads import THREADS_MAX
from stele.errors import Conflict, StaleHandle
from tests.unit.metastore.embedded_support import Home


@pytest.mark.parametrize("attached", [False, True])
async def test_a_database_for_asyncio_has_a_metastore(tmp_path: Path, attached: bool) -> None:
    owner = await stele.aio.open(tmp_path)
    database = await stele.aio.open(tmp_path) if attached else owner
    ms = database.metastore
    assert ms is database.metastore
    index = await ms.put("/a", b"1")
    assert (await ms.get("/a", at=index)).value == b"1"  # type: ignore[union-attr]
    async with await ms.watch("/w/") as watch:
        waiting = asyncio.ensure_future(anext(watch))
        await ms.put("/w/x", b"2")
        assert (await waiting).changes[0].value == b"2"
    t = ms.transaction()
    await t.get("/a")
    await ms.put("/a", b"2")
    t.put("/a", b"3")
    with pytest.raises(Conflict):
        await t.commit()
    async with await ms.session(ttl=5) as session, session.lock("/locks/x") as lock:
        assert lock.is_held
    assert (await ms.admin.status()).role == "leader"
    pieces: list[bytes] = []
    assert await ms.admin.snapshot(pieces.append) >= index
    assert pieces
    if attached:
        await database.close()
    await owner.close()


async def test_what_is_asked_of_a_closed_one_is_refused() -> None:
    home = Home()
    ms = home.ms.for_coroutines()
    await ms.put("/a", b"1")
    await ms.close()
    with pytest.raises(StaleHandle):
        await ms.get("/a")


async def test_who_is_cancelled_before_a_thread_is_free_has_asked_nothing() -> None:
    home = Home()
    ms = home.ms.for_coroutines()
    await ms.put("/first", b"1")
    with home.node.alone():
        asked = [asyncio.ensure_future(ms.put(f"/{n}", b"1")) for n in range(2 * THREADS_MAX)]
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(each) for each in outcomes} == {asyncio.CancelledError}
    assert len(await ms.range("/", keys_only=True)) <= 1 + THREADS_MAX
    await ms.close()
