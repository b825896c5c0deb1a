"""Waiting in a loop for commits that threads make durable: one wake-up for many of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from stele.client.backend import Pending
from stele.errors import SteleError


async def decided(commits: Sequence[Pending]) -> list[SteleError | None]:
    """Why each commit failed, or ``None``, once all of them are decided."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    errors: list[SteleError | None] = [None] * len(commits)
    left = len(commits)
    lock = threading.Lock()

    def wake() -> None:
        if not over.done():
            over.set_result(None)

    def settle(place: int, error: SteleError | None) -> None:
        nonlocal left
        errors[place] = error
        with lock:
            left -= 1
            is_last = not left
        if is_last and not loop.is_closed():
            loop.call_soon_threadsafe(wake)

    for place, commit in enumerate(commits):
        commit.then(lambda error, place=place: settle(place, error))  # type: ignore[misc]
    if commits:
        await over
    return errors
