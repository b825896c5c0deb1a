"""The channel for code that does not await: the same names, each returning when it is done.

A loop runs in a daemon thread, one for the process unless asked otherwise, and every call hands
its coroutine over and waits. Any thread may call. After a fork the child has no such thread: what
was opened before is refused with `StaleHandle`, and what is opened anew gets a new thread.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from stele.env.ports import Random
from stele.errors import StaleHandle
from stele.rpc.backoff_policy import BackoffPolicy
from stele.rpc.channel import CLOSE_GRACE_S, TIMEOUT_S, Channel
from stele.rpc.client_session import ClientOptions
from stele.rpc.connection import MessageClock
from stele.rpc.fork import ForkGuard
from stele.rpc.framing import Buffer
from stele.rpc.loops import new_loop
from stele.rpc.service import OneWay, Reply, Req, Resp, ServerStream, Unary
from stele.rpc.stream import Stream
from stele.rpc.tls import Credentials
from stele.rpc.wire_format import Origin

JOIN_S: Final = 5.0

T = TypeVar("T")


class LoopThread:
    """A loop in a thread of its own. Any other thread may run coroutines on it."""

    _shared: LoopThread | None = None
    _shared_lock = threading.Lock()

    def __init__(self, name: str = "stele-rpc"):
        self._fork = ForkGuard("the loop thread")
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> LoopThread:
        """The thread of this process, started when it is first asked for."""
        with cls._shared_lock:
            if cls._shared is None or not cls._shared.is_usable:
                cls._shared = cls()
                atexit.register(cls._shared.close)
            return cls._shared

    @property
    def is_usable(self) -> bool:
        """Whether coroutines can be run: not closed, and of this process."""
        return not self._fork.inherited and self._thread.is_alive()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to its end and return its result. Interrupting the wait cancels it."""
        try:
            self._fork.check()
            if not self._thread.is_alive():
                raise StaleHandle("the loop thread is closed")
            assert threading.current_thread() is not self._thread, "would wait for itself"
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop. What runs on it is cancelled."""
        if self.is_usable:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(JOIN_S)

    def _run_loop(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


def _forget_shared() -> None:
    """In a forked child: the thread is not there, and its lock may have been held by another."""
    LoopThread._shared = None  # noqa: SLF001 - this module's own state
    LoopThread._shared_lock = threading.Lock()  # noqa: SLF001


os.register_at_fork(after_in_child=_forget_shared)


class SyncChannel:
    """`Channel` for threads."""

    def __init__(
        self,
        address: str,
        options: ClientOptions | None = None,
        *,
        random: Random,
        credentials: Credentials | None = None,
        clock: MessageClock | None = None,
        backoff: BackoffPolicy | None = None,
        thread: LoopThread | None = None,
    ):
        self.address = address
        self._thread = thread or LoopThread.shared()

        async def make() -> Channel:
            return Channel(
                address,
                options,
                random=random,
                credentials=credentials,
                clock=clock,
                backoff=backoff,
            )

        self._channel = self._thread.run(make())

    def call(
        self,
        method: Unary[Req, Resp],
        request: Req,
        *,
        timeout_s: float = TIMEOUT_S,
        wait: bool = False,
        origin: Origin | None = None,
    ) -> Resp:
        """One request, one response. Raises what the handler raised."""
        return self._thread.run(
            self._channel.call(method, request, timeout_s=timeout_s, wait=wait, origin=origin)
        )

    def call_attached(
        self,
        method: Unary[Req, Resp],
        request: Req,
        attachments: Sequence[Buffer] = (),
        *,
        timeout_s: float = TIMEOUT_S,
        wait: bool = False,
        origin: Origin | None = None,
    ) -> Reply[Resp]:
        """The same with raw attachments, there and back."""
        return self._thread.run(
            self._channel.call_attached(
                method, request, attachments, timeout_s=timeout_s, wait=wait, origin=origin
            )
        )

    def stream(
        self,
        method: ServerStream[Req, Resp],
        request: Req,
        *,
        timeout_s: float | None = None,
        wait: bool = False,
        origin: Origin | None = None,
    ) -> SyncStream[Resp]:
        """Ask for a stream. Without a timeout it lasts as long as both sides want."""
        opened = self._thread.run(
            self._channel.stream(method, request, timeout_s=timeout_s, wait=wait, origin=origin)
        )
        return SyncStream(self._thread, opened)

    def send(
        self,
        method: OneWay[Req],
        message: Req,
        attachments: Sequence[Buffer] = (),
        *,
        origin: Origin | None = None,
    ) -> None:
        """Send a message without an answer. If there is no connection now, it is not sent."""

        async def send() -> None:
            self._channel.send(method, message, attachments, origin=origin)

        self._thread.run(send())

    def connect(self, *, timeout_s: float = TIMEOUT_S, wait: bool = True) -> None:
        """Return when there is an open connection."""
        self._thread.run(self._channel.connect(timeout_s=timeout_s, wait=wait))

    def dial(self) -> None:
        """Begin to connect, unless there is a connection or the last attempt was just now."""

        async def dial() -> None:
            self._channel.dial()

        self._thread.run(dial())

    @property
    def is_open(self) -> bool:
        """Whether a call would go out now."""
        return self._thread.is_usable and self._channel.is_open

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Refuse new calls, let those in flight finish within the grace, then cut them."""
        if self._thread.is_usable:
            self._thread.run(self._channel.close(grace_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SyncStream(Generic[Resp]):
    """`Stream` for threads: an iterator. One thread reads it at a time."""

    def __init__(self, thread: LoopThread, stream: Stream[Resp]):
        self._thread = thread
        self._stream = stream
        self._here: deque[Reply[Resp]] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Resp:
        return self.next_reply().message

    def next_reply(self) -> Reply[Resp]:
        """The next message with its attachments; raises `StopIteration` at the end."""
        if not self._here:
            # Crossing threads costs more than reading: fetch all there is in one go.
            self._here.extend(self._thread.run(self._stream.next_replies()))
        if not self._here:
            raise StopIteration
        return self._here.popleft()

    def close(self) -> None:
        """Stop reading."""
        self._here.clear()
        if self._thread.is_usable:
            self._thread.run(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
