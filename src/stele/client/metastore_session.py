"""Sessions and the locks they hold.

A session lives as long as somebody keeps it alive: a client does so in the background, three times
within its time to live. When it ends, through ``close`` or because nobody was heard of for that
long, its locks pass on and its keys go away.

A client that was cut off cannot know whether its session still lives. It takes it for lost when its
time is over by its own clock, which is never after the group has ended it. What it started before,
such as a write to another system, may still arrive later: that is what tokens are for. Hand
``lock.token`` to whatever the lock protects, and let it refuse a smaller token than it has seen.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from stele.client.closing import AsyncClosing
from stele.client.metastore_sequence import RequestNumbers
from stele.client.metastore_transport import Transport
from stele.client.waiting import US_PER_SECOND, Timeout, timeout_us
from stele.errors import DeadlineExceeded, RetryLater, SessionExpired, SteleError, Throttled
from stele.protocol.metastore import (
    ACQUIRE,
    AWAIT_LOCK,
    CLOSE_SESSION,
    LEAVE_LOCK,
    RELEASE,
    AcquireRequest,
    AwaitLockRequest,
    CloseSessionRequest,
    LeaveLockRequest,
    LockResponse,
    ReleaseRequest,
    SessionResponse,
)

CALL_S = 30.0
"""How long a release or the end of a session is tried: then the TTL does the same."""

TAKE_BACK_S = 2.0
"""How long a request for a lock is looked for whose answer nobody has waited for."""


class AsyncSession(AsyncClosing):
    """Made by ``AsyncMetastore.session``. Tasks share it."""

    def __init__(
        self, transport: Transport, sequence: RequestNumbers, opened: SessionResponse, sent_us: int
    ) -> None:
        self.id = opened.session
        self.ttl_us = opened.ttl_us
        self._transport = transport
        self._sequence = sequence
        self._expires_us = sent_us + opened.ttl_us
        self._lost: SteleError | None = None
        self._closed = False
        self._on_lost: list[Callable[[], None]] = []
        self._guard = threading.Lock()
        self._stop = transport.keep(
            self.id, sequence.client, self.ttl_us, self._renewed, self._was_lost
        )

    @property
    def is_alive(self) -> bool:
        """Whether the group has not ended the session before this moment, for certain."""
        if self._closed or self._lost is not None:
            return False
        return self._transport.monotonic_us() < self._expires_us

    def check(self) -> None:
        """Raise ``SessionExpired`` unless the session is alive for certain."""
        if not self.is_alive:
            raise SessionExpired(f"session {self.id} has ended") from self._lost

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call back once when the session is lost, from any thread; at once if it is already."""
        with self._guard:
            if self._lost is None:
                self._on_lost.append(callback)
                return
        callback()

    def lock(
        self, key: str, *, exclusive: bool = True, timeout: Timeout = None, wait: bool = True
    ) -> AsyncLock:
        """A lock on a key, shared or exclusive, first come first served: ``async with``."""
        return AsyncLock(self, key, exclusive=exclusive, wait=wait, timeout_us=timeout_us(timeout))

    async def close(self) -> None:
        """End the session: locks pass on, its keys go away. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._stop()
        with self._sequence.next() as identity:
            request = CloseSessionRequest(identity, self.id)
            await self._transport.call(CLOSE_SESSION, request, timeout_s=CALL_S)

    def _renewed(self, expires_us: int) -> None:
        self._expires_us = expires_us

    def _was_lost(self, error: SteleError) -> None:
        with self._guard:
            self._lost = error
            callbacks, self._on_lost = self._on_lost, []
        for callback in callbacks:
            callback()

    # What locks ask of their session.

    async def acquire(self, key: str, *, exclusive: bool, wait: bool, ends_us: int) -> LockResponse:
        """Ask for a lock; granted, waiting, or neither. Who does not wait for the answer, or gets
        none, leaves nothing behind."""
        self.check()
        with self._sequence.next() as identity:
            request = AcquireRequest(identity, self.id, key, exclusive, wait)
            try:
                return await self._transport.call(ACQUIRE, request, timeout_s=self._left_s(ends_us))
            except (RetryLater, asyncio.CancelledError, KeyboardInterrupt):
                await self._take_back(request)
                raise

    async def _take_back(self, request: AcquireRequest) -> None:
        """What came of a request is not known: the group tells, to whom it is the same request. If
        it has never seen it, it does not queue up for it either."""
        again = msgspec.structs.replace(request, wait=False)
        try:
            answer = await self._transport.call(ACQUIRE, again, timeout_s=TAKE_BACK_S)
        except SteleError:
            return  # the end of the session takes it back
        if answer.ticket:
            await self.give_up(request.key, answer.ticket)

    async def give_up(self, key: str, ticket: int) -> None:
        """Nobody waits any more: leave no place in the queue, and no lock either."""
        try:
            if (await self.leave_lock(key, ticket)).token:
                await self.release(key, ticket)
        except SteleError:
            return  # the end of the session takes both

    async def await_lock(self, key: str, ticket: int, ends_us: int) -> LockResponse:
        """Wait in the queue of a lock, until it is granted or the time is over."""
        request = AwaitLockRequest(self.id, key, ticket, self._sequence.client)
        while True:
            answer = await self._transport.call(
                AWAIT_LOCK, request, timeout_s=self._left_s(ends_us)
            )
            if not answer.is_waiting:
                return answer
            if not self._left_s(ends_us):
                raise DeadlineExceeded("the time to wait is over")

    async def leave_lock(self, key: str, ticket: int) -> LockResponse:
        """Leave the queue, unless it was granted meanwhile."""
        with self._sequence.next() as identity:
            request = LeaveLockRequest(identity, self.id, key, ticket)
            return await self._transport.call(LEAVE_LOCK, request, timeout_s=CALL_S)

    async def release(self, key: str, ticket: int) -> None:
        """Give a lock back."""
        with self._sequence.next() as identity:
            request = ReleaseRequest(identity, self.id, key, ticket)
            await self._transport.call(RELEASE, request, timeout_s=CALL_S)

    def deadline_us(self, timeout_us: int) -> int:
        """When something that begins now has to end."""
        return self._transport.monotonic_us() + timeout_us

    def _left_s(self, ends_us: int) -> float:
        return max(ends_us - self._transport.monotonic_us(), 0) / US_PER_SECOND


class AsyncLock:
    """One request for a lock; held from ``acquire`` to ``release``, or within ``async with``."""

    def __init__(
        self, session: AsyncSession, key: str, *, exclusive: bool, wait: bool, timeout_us: int
    ) -> None:
        self._session = session
        self._key = key
        self._exclusive = exclusive
        self._wait = wait
        self._timeout_us = timeout_us
        self._ticket = 0
        self.token = 0
        """The fencing token, greater than that of every earlier holder; 0 while not held."""

    @property
    def is_held(self) -> bool:
        """Whether nobody else can hold it, for certain, at this moment."""
        return self.token != 0 and self._session.is_alive

    async def acquire(self) -> int:
        """Wait for the lock; its token. ``DeadlineExceeded`` when the time is over, ``Throttled``
        when it is held by others and nobody wanted to wait."""
        session = self._session
        ends_us = session.deadline_us(self._timeout_us)
        answer = await session.acquire(
            self._key, exclusive=self._exclusive, wait=self._wait, ends_us=ends_us
        )
        if answer.is_waiting:
            try:
                answer = await session.await_lock(self._key, answer.ticket, ends_us)
            except DeadlineExceeded as error:
                await session.give_up(self._key, answer.ticket)
                raise DeadlineExceeded(
                    f"the lock {self._key} was not granted within "
                    f"{self._timeout_us / US_PER_SECOND:g} s: it is held by others"
                ) from error
            except (SteleError, asyncio.CancelledError, KeyboardInterrupt):
                await session.give_up(self._key, answer.ticket)
                raise
        if not answer.token:
            session.check()
            raise Throttled(f"the lock {self._key} is held by others")
        self._ticket, self.token = answer.ticket, answer.token
        return self.token

    async def release(self) -> None:
        """Give it back. Idempotent."""
        if self.token:
            self.token = 0
            await self._session.release(self._key, self._ticket)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()
