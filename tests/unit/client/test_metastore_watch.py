"""Watches of the asyncio client."""

from __future__ import annotations

from tests.unit.metastore.cluster_support import group_of


async def test_a_watch_from_now_on_misses_nothing_that_follows() -> None:
    async with group_of(1) as group:
        ms = group.client()
        await ms.put("/w/a", b"before")
        async with await ms.watch("/w/") as watch:
            index = await ms.put("/w/a", b"after")
            changes = await anext(watch)
            assert (changes.index, changes.changes[0].value) == (index, b"after")
            assert watch.index == index


async def test_a_watch_resumes_from_an_index_of_the_past() -> None:
    async with group_of(1) as group:
        ms = group.client()
        first = await ms.put("/w/a", b"1")
        await ms.put("/elsewhere", b"x")
        second = await ms.delete("/w/a") and await ms.put("/w/b", b"2")
        async with await ms.watch("/w/", since=first) as watch:
            gone = await anext(watch)
            assert [(c.key, c.value) for c in gone.changes] == [("/w/a", None)]
            assert (await anext(watch)).index == second
        async with await ms.watch("/w/b", since=0) as watch:
            assert (await anext(watch)).index == second
