"""The reading end of a server stream.

Items are handed out in order; reading one gives its bytes back to the sender as credit, so a slow
reader holds at most one window and one item. A stream that is dropped without being closed is
cancelled when it is collected; `async with` says so in time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, Generic, Protocol, Self

from stele.errors import SteleError
from stele.rpc.events import Item
from stele.rpc.service import Reply, Resp, ServerStream, read_response


class StreamSource(Protocol):
    """What a stream needs of its connection."""

    def consumed(self, request_id: int, weight: int) -> None:
        """An item of this weight was read."""

    def cancel(self, request_id: int) -> None:
        """Nobody reads this stream any more."""


class Inbox:
    """Items that have arrived and were not read. The connection's side of a stream."""

    __slots__ = ("_waiter", "ended", "error", "items")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.ended = False
        self.error: SteleError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Item) -> None:
        """One more item."""
        self.items.append(item)
        self._wake()

    def end(self, error: SteleError | None = None) -> None:
        """No more items."""
        self.ended = True
        self.error = error
        self._wake()

    async def wait(self) -> None:
        """Return when there is an item or the end."""
        assert self._waiter is None, "two readers of one stream"
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Stream(Generic[Resp]):
    """An async iterator of messages; `replies` gives them with their attachments."""

    def __init__(
        self,
        source: StreamSource,
        request_id: int,
        inbox: Inbox,
        method: ServerStream[Any, Resp],
        loop: asyncio.AbstractEventLoop,
    ):
        self._source = source
        self._request_id = request_id
        self._inbox = inbox
        self._method = method
        self._loop = loop
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Resp:
        return (await self.next_reply()).message

    async def next_reply(self) -> Reply[Resp]:
        """The next message with its attachments; raises `StopAsyncIteration` at the end."""
        inbox = self._inbox
        while not inbox.items:
            if inbox.error is not None:
                raise inbox.error
            if inbox.ended or self._closed:
                raise StopAsyncIteration
            await inbox.wait()
        return self._take()

    async def next_replies(self) -> list[Reply[Resp]]:
        """At least one message, and all others that are already here; empty at the end."""
        try:
            replies = [await self.next_reply()]
        except StopAsyncIteration:
            return []
        while self._inbox.items:
            replies.append(self._take())
        return replies

    async def aclose(self) -> None:
        """Stop reading. What has not been read is dropped, here and at the server."""
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def __del__(self) -> None:
        if not self._closed and not self._inbox.ended and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._source.cancel, self._request_id)

    def _take(self) -> Reply[Resp]:
        item = self._inbox.items.popleft()
        self._source.consumed(self._request_id, item.weight)
        return Reply(read_response(self._method, item.body), item.attachments)

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._inbox.items.clear()
            if not self._inbox.ended:
                self._inbox.end()
                self._source.cancel(self._request_id)
