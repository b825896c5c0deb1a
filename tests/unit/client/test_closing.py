"""Closed on the way out, whichever way that is."""

from __future__ import annotations

import asyncio

import pytest

from stele.client.closing import AsyncClosing, Closing, Releasing


class Door(Closing):
    closings = 0

    def close(self) -> None:
        self.closings += 1


class Rope(Releasing):
    releases = 0

    def release(self) -> None:
        self.releases += 1


class AsyncDoor(AsyncClosing):
    closings = 0

    async def close(self) -> None:
        self.closings += 1


def test_it_is_closed_at_the_end_and_by_an_error() -> None:
    with Door() as door:
        assert door.closings == 0
    assert door.closings == 1
    other = Door()
    with pytest.raises(KeyError), other:
        {"a": 1}["b"]
    assert other.closings == 1


def test_it_is_released_at_the_end_and_by_an_error() -> None:
    with Rope() as rope:
        assert rope.releases == 0
    assert rope.releases == 1
    with pytest.raises(KeyError), rope:
        {"a": 1}["b"]
    assert rope.releases == 2


def test_it_is_closed_in_a_loop_too() -> None:
    async def pass_through() -> AsyncDoor:
        async with AsyncDoor() as door:
            assert door.closings == 0
        return door

    assert asyncio.run(pass_through()).closings == 1


def test_what_cannot_be_closed_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="close"):
        Closing()  # type: ignore[abstract]
