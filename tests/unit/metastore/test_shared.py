"""An embedded node for callers on a loop, as attached processes are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stele
from stele.client.metastore_connect import connect_async
from stele.cluster.attach import OwnerLocation
from stele.errors import InvalidArgument
from stele.metastore.embedded import HERE
from stele.metastore.shared import SharedMetastore
from stele.protocol.metastore import GET, WATCH, GetRequest, WatchRequest
from stele.protocol.metastore_values import KeyRange
from tests.unit.metastore.embedded_support import Home


async def test_an_attached_process_uses_the_same_metastore(tmp_path: Path) -> None:
    with stele.open(tmp_path) as owner:
        ms = await connect_async(OwnerLocation(str(tmp_path)).address())
        index = await ms.put("/a", b"1")
        assert owner.metastore.get("/a").index == index  # type: ignore[union-attr]
        with pytest.raises(InvalidArgument):
            await ms.get("nonsense")
        watch = await ms.watch("/w/")
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)
        owner.metastore.put("/w/x", b"2")
        assert (await waiting).changes[0].value == b"2"
        idle = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)
        idle.cancel()
        await watch.close()
        async with await ms.session(ttl=5) as session:
            with owner.metastore.session() as other, other.lock("/locks/x") as held:
                waiting_for = asyncio.ensure_future(session.lock("/locks/x").acquire())
                await asyncio.sleep(0.05)
                assert not waiting_for.done()
                token = held.token
            assert await waiting_for > token
        await ms.close()


def test_watches_of_processes_that_left_are_forgotten(tmp_path: Path) -> None:
    with stele.open(tmp_path) as owner, stele.open(tmp_path) as guest:
        with guest.metastore.watch("/w/") as watch:
            owner.metastore.put("/w/a", b"1")
            assert next(watch).changes[0].key == "/w/a"
        with guest.metastore.transaction() as t:
            t.put("/n", b"1")
        assert owner.metastore.get("/n") is not None


async def test_who_leaves_while_a_thread_is_at_work_leaves_nothing_behind() -> None:
    home = Home()
    shared = SharedMetastore(home.node)
    bindings = {binding.method.number: binding for binding in shared.bindings()}
    stream = bindings[WATCH.number].function(HERE, WatchRequest(KeyRange("/w"), 0))
    await anext(stream)
    home.ms.put("/w", b"1")
    with home.node.alone():
        waiting = asyncio.ensure_future(anext(stream))
        read = asyncio.ensure_future(bindings[GET.number].function(HERE, GetRequest("/w")))
        await asyncio.sleep(0.05)
        waiting.cancel()
        read.cancel()
        await asyncio.sleep(0.05)
    done = await asyncio.gather(waiting, read, return_exceptions=True)
    await stream.aclose()
    assert [type(each) for each in done] == [asyncio.CancelledError] * 2
    assert len(home.node.driver.hub) == 0
    shared.close()
