"""The metastore of an open database, for coroutines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stele
from stele.errors import Conflict


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
