"""The asyncio client against a group of nodes."""

from __future__ import annotations

import asyncio

import pytest

from stele.client.metastore_aio import PAGE_KEYS, session_id
from stele.client.metastore_transaction import AsyncMetastoreTransaction
from stele.errors import InvalidArgument, SnapshotTooOld
from stele.protocol.metastore_values import Compare, CompareField, Get, Put, Relation
from tests.unit.metastore.cluster_support import group_of


async def test_s8_to_s11_keys_are_put_read_listed_and_deleted() -> None:
    async with group_of(1) as group:
        ms = group.client()
        assert await ms.get("/a/b") is None
        first = await ms.put("/a/b", b"1")
        second = await ms.put("/a/b", b"2")
        await ms.put("/a/c", b"3")
        found = await ms.get("/a/b")
        assert found is not None
        assert (found.value, found.created, found.index, found.version) == (b"2", first, second, 2)
        assert [item.key for item in await ms.range("/a/")] == ["/a/b", "/a/c"]
        assert [item.key for item in await ms.range("/a/", limit=1)] == ["/a/b"]
        assert await ms.range("/a/", limit=0) == []
        assert [item.value for item in await ms.range("/a/", keys_only=True)] == [b"", b""]
        assert [item.key for item in await ms.range("/a/b", "/a/c")] == ["/a/b"]
        assert (await ms.get("/a/b", at=first)).value == b"1"  # type: ignore[union-attr]
        assert await ms.delete("/a/b") == 1
        assert await ms.delete("/a/b") == 0
        assert await ms.delete("/a/") == 1
        with pytest.raises(InvalidArgument, match="limit -1"):
            await ms.range("/a/", limit=-1)


async def test_a_range_of_many_pages_is_of_one_index() -> None:
    async with group_of(1) as group:
        ms = group.client()
        count = PAGE_KEYS + 200
        for start in range(0, count, 100):
            await ms.txn(then=[Put(f"/k/{n:05d}", b"old") for n in range(start, start + 100)])
        other = group.client()
        pages = ms.range("/k/")
        found, _ = await asyncio.gather(pages, other.put("/k/99999", b"new"))
        assert len(found) in (count, count + 1)
        assert [item.key for item in found] == sorted(item.key for item in found)


async def test_compare_and_swap() -> None:
    async with group_of(1) as group:
        ms = group.client()
        missing = Compare("/n", CompareField.VERSION, Relation.EQUAL, 0)
        made = await ms.txn([missing], [Put("/n", b"1")], [Get("/n")])
        assert made.succeeded
        again = await ms.txn([missing], [Put("/n", b"2")], [Get("/n")])
        assert not again.succeeded
        (seen,) = again.results
        assert seen.value == b"1"  # type: ignore[union-attr]


async def test_increments_of_many_tasks_are_all_counted() -> None:
    async with group_of(1) as group:
        ms = group.client()
        await ms.put("/n", b"0")

        async def increment(t: AsyncMetastoreTransaction) -> None:
            seen = await t.get("/n")
            assert seen is not None
            t.put("/n", b"%d" % (int(seen.value) + 1))

        await asyncio.gather(*(ms.transact(increment) for _ in range(12)))
        assert (await ms.get("/n")).value == b"12"  # type: ignore[union-attr]


async def test_an_index_holds_what_was_acknowledged() -> None:
    async with group_of(1) as group:
        ms = group.client()
        written = await ms.put("/a", b"1")
        assert await ms.index() >= written
        with pytest.raises(InvalidArgument, match="not there yet"):
            await ms.get("/a", at=written + 1_000)
        with pytest.raises(SnapshotTooOld):
            await ms.get("/a", at=-1)


def test_sessions_are_named_by_their_number() -> None:
    assert session_id(None) == 0
    assert session_id(17) == 17
