"""Requests of one client, one after the other; those of different clients side by side.

A client sends writes without waiting for the answers to those before, and a later one must not
overtake. A request that nobody waits for any more keeps its place all the same: whatever was begun
for it ends before the next one begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class RequestOrder:
    """Belongs to one loop. Holds nothing for clients that have no request under way."""

    def __init__(self) -> None:
        self._last: dict[bytes, asyncio.Task[Any]] = {}

    @property
    def clients(self) -> int:
        """Clients with requests under way."""
        return len(self._last)

    async def run(self, client: bytes, request: Callable[[], Awaitable[T]]) -> T:
        """Run a request after all that this client made before; its place is taken at once."""
        before = self._last.get(client)
        mine = asyncio.get_running_loop().create_task(_run_after(before, request))
        self._last[client] = mine
        mine.add_done_callback(lambda _: self._forget(client, mine))
        return await asyncio.shield(mine)

    def _forget(self, client: bytes, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # a caller that has gone does not hear of it
        if self._last.get(client) is task:
            del self._last[client]


async def _run_after(before: asyncio.Task[Any] | None, request: Callable[[], Awaitable[T]]) -> T:
    if before is not None:
        await asyncio.wait([before])
    return await request()
