"""Interactive transactions: phantoms and write skew cannot happen."""

from __future__ import annotations

import pytest

from stele.errors import Conflict, StaleHandle
from tests.unit.metastore.cluster_support import group_of


async def test_s12_a_phantom_is_a_conflict() -> None:
    async with group_of(1) as group:
        ms = group.client()
        t = ms.transaction()
        assert await t.range("/d/") == []
        await ms.put("/d/new", b"1")
        t.put("/count", b"0")
        with pytest.raises(Conflict):
            await t.commit()
        assert await ms.get("/count") is None


async def test_s12_write_skew_is_a_conflict() -> None:
    async with group_of(1) as group:
        ms = group.client()
        await ms.put("/oncall/ann", b"yes")
        await ms.put("/oncall/bob", b"yes")
        first, second = ms.transaction(), ms.transaction()
        for t in (first, second):
            assert len(await t.range("/oncall/")) == 2
        first.delete("/oncall/ann")
        second.delete("/oncall/bob")
        await first.commit()
        with pytest.raises(Conflict):
            await second.commit()


async def test_reads_are_of_one_moment_and_see_own_writes() -> None:
    async with group_of(1) as group:
        ms = group.client()
        await ms.put("/a", b"1")
        async with ms.transaction() as t:
            assert (await t.get("/a")).value == b"1"  # type: ignore[union-attr]
            await ms.put("/a", b"2")
            assert (await t.get("/a")).value == b"1"  # type: ignore[union-attr]
        assert t.index is not None, "a transaction that only reads has nothing to lose"
        async with ms.transaction() as t:
            t.put("/b", b"1")
            assert (await t.get("/b")).value == b"1"  # type: ignore[union-attr]
            assert [item.key for item in await t.range("/")] == ["/a", "/b"]
        assert t.index == (await ms.get("/b")).index  # type: ignore[union-attr]


async def test_an_error_inside_leaves_everything_as_it_was() -> None:
    async with group_of(1) as group:
        ms = group.client()
        t = ms.transaction()
        t.put("/a", b"1")
        await t.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert await ms.get("/a") is None
        with pytest.raises(StaleHandle):
            t.put("/a", b"1")
