"""A watch: every change of some keys, as whole transactions, in the order of their indices."""

from __future__ import annotations

from collections import deque
from typing import Self

from stele.client.closing import AsyncClosing
from stele.client.metastore_transport import WatchSource
from stele.protocol.metastore_values import Changes


class AsyncWatch(AsyncClosing):
    """An async iterator of ``Changes``; used in an ``async with`` by one task."""

    def __init__(self, source: WatchSource) -> None:
        self._source = source
        self._here: deque[Changes] = deque()
        self.index = 0
        """Everything up to here has been handed out; where to resume from in another life."""
        self._reached = 0

    async def start(self) -> None:
        """Wait until the watch stands: nothing that happens from then on is missed."""
        await self._fill()
        self.index = self.index if self._here else self._reached

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Changes:
        while not self._here:
            self.index = self._reached
            await self._fill()
        changes = self._here.popleft()
        self.index = changes.index
        return changes

    async def _fill(self) -> None:
        response = await self._source.next()
        self._here.extend(response.transactions)
        self._reached = response.index

    async def close(self) -> None:
        """Watch no more."""
        await self._source.close()
