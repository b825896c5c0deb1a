"""A metastore that is used from threads, for coroutines: each call waits in a thread of its own.

An open database has one client of its metastore, whose calls may wait for a disk or for another
loop. Coroutines get the same client through this: nothing of it runs on their loop. Whoever is
cancelled stops waiting; what was asked for goes on.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from stele.client.metastore_transport import Lost, Runner, Transport, WatchSource
from stele.errors import StaleHandle
from stele.protocol.metastore import WatchRequest, WatchResponse
from stele.rpc.service import Req, Resp, Unary

THREADS_MAX: Final = 64
"""Calls, watches and waits for locks at a time; more wait for their turn."""

T = TypeVar("T")


class ThreadsTransport:
    """``Transport`` over one that threads use."""

    def __init__(self, inner: Transport, runner: Runner) -> None:
        self._inner = inner
        self._runner = runner
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="stele-metastore-aio")

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Let a thread wait for it."""
        loop = asyncio.get_running_loop()
        try:
            waiting = loop.run_in_executor(self._threads, self._runner.run, coroutine)
        except RuntimeError as error:
            coroutine.close()
            raise StaleHandle("the metastore client is closed") from error
        try:
            return await waiting
        except asyncio.CancelledError:
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()  # no thread was free for it, and now none is needed
            raise

    async def call(self, method: Unary[Req, Resp], request: Req, *, timeout_s: float) -> Resp:
        """The answer of the node that leads."""
        return await self.run(self._inner.call(method, request, timeout_s=timeout_s))

    async def call_nearest(
        self, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """The answer of any node."""
        return await self.run(self._inner.call_nearest(method, request, timeout_s=timeout_s))

    async def call_at(
        self, address: str, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """The answer of one node."""
        return await self.run(self._inner.call_at(address, method, request, timeout_s=timeout_s))

    async def watch(self, request: WatchRequest) -> ThreadsWatch:
        """Begin a watch."""
        return ThreadsWatch(self, await self.run(self._inner.watch(request)))

    async def backup(self, write: Callable[[bytes], object]) -> int:
        """Hand a copy of the whole state to ``write``, in a thread."""
        return await self.run(self._inner.backup(write))

    def monotonic_us(self) -> int:
        """The time that sessions are measured by."""
        return self._inner.monotonic_us()

    def keep(
        self, session: int, client: int, ttl_us: int, renewed: Callable[[int], None], lost: Lost, /
    ) -> Callable[[], None]:
        """Keep a session alive in the background."""
        return self._inner.keep(session, client, ttl_us, renewed, lost)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that are known."""
        return self._inner.addresses

    async def close(self) -> None:
        """Take no more calls; the client belongs to the database."""
        self._threads.shutdown(wait=False)


class ThreadsWatch:
    """``WatchSource`` whose next change a thread waits for."""

    def __init__(self, transport: ThreadsTransport, source: WatchSource) -> None:
        self._transport = transport
        self._source = source

    async def next(self) -> WatchResponse:
        """The next changes."""
        return await self._transport.run(self._source.next())

    async def close(self) -> None:
        """Watch no more."""
        await self._transport.run(self._source.close())
