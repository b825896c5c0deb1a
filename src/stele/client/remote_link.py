"""The way to a store in another process: where it is, a channel to it, and what a loss means.

Connections are lost when the store closes, dies or is replaced by another one. What can be repeated
without harm is tried again for a short while, in which the next store may have come; after that the
error says what became of the one that was there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from stele.client.waiting import OPERATION_US_DEFAULT, US_PER_SECOND, ClientWorld
from stele.errors import DeadlineExceeded, StaleHandle, SteleError, Unavailable
from stele.protocol.tables import TABLE_LIMITS
from stele.rpc.backoff_policy import BackoffPolicy
from stele.rpc.channel import Channel
from stele.rpc.client_session import ClientOptions
from stele.rpc.framing import Buffer
from stele.rpc.service import Reply, Req, Resp, ServerStream, Unary
from stele.rpc.stream import Stream
from stele.rpc.sync import LoopThread

RECONNECT_US: Final = 2_000_000
"""How long a lost store is looked for: a restart of a small one takes less."""

REDIAL: Final = BackoffPolicy(first_us=5_000, last_us=100_000)

LOOK_AGAIN_US: Final = 20_000

CLOSE_GRACE_S: Final = 1.0

T = TypeVar("T")


class Location(Protocol):
    """Knows where a store is, and what can be said when it is not there."""

    def address(self) -> str:
        """Where the store is now; ``Unavailable``, saying why, while it is nowhere."""

    def explain(self, error: SteleError) -> SteleError:
        """What a connection that is lost, or did not come about, means for the caller."""


class RemoteLink:
    """Calls to one store. Threads share it; coroutines of it run in the loop's thread."""

    def __init__(self, location: Location, world: ClientWorld, name: str = "") -> None:
        self.world = world
        self.thread = LoopThread.shared()
        self._location = location
        self._options = ClientOptions(name=name, limits=TABLE_LIMITS)
        self._channel: Channel | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = self.thread.run(_running_loop())

    # ---- for threads -----------------------------------------------------------------------

    def call(
        self,
        method: Unary[Req, Resp],
        request: Req,
        timeout_us: int,
        *,
        repeat: bool,
        attachments: Sequence[Buffer] = (),
    ) -> Reply[Resp]:
        """One request, one answer. ``repeat``: asking twice does no harm."""
        return self.thread.run(
            self.request(method, request, timeout_us, repeat=repeat, attachments=attachments)
        )

    def stream(
        self, method: ServerStream[Req, Resp], request: Req, timeout_us: int | None
    ) -> Stream[Resp]:
        """Open a stream; it has no deadline unless one is given."""
        timeout_s = None if timeout_us is None else timeout_us / US_PER_SECOND

        async def open_stream() -> Stream[Resp]:
            return await self.repeat(
                lambda channel: channel.stream(method, request, timeout_s=timeout_s),
                OPERATION_US_DEFAULT if timeout_us is None else timeout_us,
            )

        return self.thread.run(open_stream())

    def post(self, work: Callable[[], None]) -> None:
        """Have something done in the loop, soon."""
        if not self.thread.is_usable:
            raise StaleHandle("the thread that speaks to the store has ended: open it again")
        self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        """Let go of the channel."""
        if self.thread.is_usable:
            self.thread.run(self._close())

    # ---- for the loop ----------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside."""
        task = self._loop.create_task(work)
        self._tasks.add(task)  # the loop itself would let it be collected
        task.add_done_callback(self._tasks.discard)
        return task

    async def request(
        self,
        method: Unary[Req, Resp],
        request: Req,
        timeout_us: int,
        *,
        repeat: bool,
        attachments: Sequence[Buffer] = (),
    ) -> Reply[Resp]:
        """One request, one answer."""
        ends_us = self.world.clock.monotonic_us() + timeout_us

        async def attempt(channel: Channel) -> Reply[Resp]:
            left_us = max(1, ends_us - self.world.clock.monotonic_us())
            left_s = left_us / US_PER_SECOND
            return await channel.call_attached(method, request, attachments, timeout_s=left_s)

        if repeat:
            return await self.repeat(attempt, timeout_us)
        await self.repeat(lambda channel: channel.connect(wait=False), timeout_us)
        try:
            return await attempt(self._current())
        except Unavailable as error:
            raise self.explained(error) from error

    async def connect(self) -> Channel:
        """A channel that stands, or ``Unavailable`` at once."""
        channel = self._current()
        await channel.connect(wait=False)
        return channel

    async def repeat(self, attempt: Callable[[Channel], Awaitable[T]], timeout_us: int) -> T:
        """Try something that does no harm twice, while the store may still come back."""
        clock = self.world.clock
        ends_us = clock.monotonic_us() + timeout_us
        lost_us: int | None = None
        while True:
            try:
                return await attempt(self._current())
            except Unavailable as error:
                now_us = clock.monotonic_us()
                lost_us = now_us if lost_us is None else lost_us
                if now_us > lost_us + RECONNECT_US:
                    raise self.explained(error) from error
                if now_us + LOOK_AGAIN_US > ends_us:
                    raise DeadlineExceeded(f"within the timeout: {error}") from error
            await asyncio.sleep(LOOK_AGAIN_US / US_PER_SECOND)

    def explained(self, error: SteleError) -> SteleError:
        """What a lost connection means."""
        return self._location.explain(error)

    def _current(self) -> Channel:
        """The channel to where the store is now; one that stands is not asked where it leads."""
        channel = self._channel
        if channel is not None and channel.is_open:
            return channel
        address = self._location.address()
        if channel is None or channel.address != address:
            if channel is not None:
                self.spawn(channel.close(CLOSE_GRACE_S))
            channel = self._channel = Channel(
                address, self._options, random=self.world.random, backoff=REDIAL
            )
        return channel

    async def _close(self) -> None:
        if self._channel is not None:
            await self._channel.close(CLOSE_GRACE_S)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
