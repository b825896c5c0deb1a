"""One connection of a channel: futures and inboxes on top of the I/O-free connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stele.env.ports import ByteStream
from stele.errors import DeadlineExceeded, SteleError, Throttled, Unavailable, Unreachable
from stele.rpc.client_connection import ClientConnection
from stele.rpc.connection import Connection, MessageClock, make_hello
from stele.rpc.connection_states import State
from stele.rpc.events import Answered, Closed, Ended, Event, Failed, Greeted, Item, PeerDraining
from stele.rpc.framing import Buffer
from stele.rpc.identity import SERVERS, Role
from stele.rpc.limits import SECOND_US, Limits
from stele.rpc.network import link_of
from stele.rpc.stream import Inbox
from stele.rpc.transport import Session
from stele.rpc.wire_format import Origin

WAITING_CALLS_MAX: Final = 4096
"""Calls of one connection that wait for room; more than that are refused at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client introduces itself, and whom it expects to find."""

    role: Role = Role.CLIENT
    name: str = ""
    cluster: str = ""
    features: tuple[str, ...] = ()
    expect: frozenset[Role] = SERVERS
    limits: Limits = field(default_factory=Limits)


class ClientSession(Session):
    """A dialled connection. `ready` resolves when it is open, `gone` when it has ended."""

    _connection: ClientConnection

    def __init__(
        self,
        options: ClientOptions,
        clock: MessageClock | None,
        loop: asyncio.AbstractEventLoop,
    ):
        super().__init__(loop)
        self.ready: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[SteleError | None] = loop.create_future()
        self.is_open = False
        self._is_unwanted = False
        self._options = options
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()

    # ---- what the channel calls --------------------------------------------------------

    def start(
        self,
        method: int,
        body: bytes,
        deadline_us: int,
        now_us: int,
        attachments: Sequence[Buffer] = (),
        origin: Origin | None = None,
    ) -> tuple[int, asyncio.Future[Answered]]:
        """Send one request; its number, and its answer to come. `Throttled` may mean: wait."""
        answer: asyncio.Future[Answered] = self._loop.create_future()
        request_id = self._connection.request(
            method,
            body,
            deadline_us=deadline_us,
            now_us=now_us,
            context=answer,
            attachments=attachments,
            origin=origin,
        )
        if self._connection.inflight == 1:
            self.flush()  # whoever is alone has nobody to share a write with
        else:
            self.touch()
        return request_id, answer

    async def start_when_possible(
        self,
        method: int,
        body: bytes,
        deadline_us: int,
        attachments: Sequence[Buffer],
        origin: Origin | None,
    ) -> tuple[int, asyncio.Future[Answered]]:
        """The same, waiting in line for room."""
        try:
            while True:
                try:
                    return self.start(method, body, deadline_us, self.now_us(), attachments, origin)
                except Throttled as refusal:
                    await self._room(refusal, deadline_us)
        except BaseException:
            self.touch()  # the room that was made for this one is for the next in line
            raise

    def open_stream(
        self, method: int, body: bytes, deadline_us: int, origin: Origin | None
    ) -> tuple[int, Inbox]:
        """Ask for a stream."""
        inbox = Inbox()
        request_id = self._connection.request(
            method,
            body,
            deadline_us=deadline_us,
            now_us=self.now_us(),
            context=inbox,
            is_stream=True,
            origin=origin,
        )
        self.touch()
        return request_id, inbox

    def send(
        self,
        method: int,
        body: bytes,
        attachments: Sequence[Buffer],
        origin: Origin | None,
        *,
        at_once: bool,
    ) -> None:
        """Send a message that has no answer."""
        self._connection.one_way(method, body, attachments=attachments, origin=origin)
        if at_once:
            self.write_now()
        else:
            self.touch()

    def consumed(self, request_id: int, weight: int) -> None:
        """The reader of a stream took an item."""
        self._connection.consumed(request_id, weight)
        if self._connection.outbox_bytes:
            self.touch()

    def cancel(self, request_id: int) -> None:
        """Nobody waits for this request any more."""
        self._connection.cancel(request_id)
        self.touch()

    def drain(self) -> None:
        """Let what is in flight finish, then close; what is still being dialled, once it opens."""
        self.is_open = False
        self._is_unwanted = True
        if self.connection is not None:
            self._connection.drain()
            self.touch()

    # ---- the stream --------------------------------------------------------------------

    def opened(self, stream: ByteStream) -> None:
        """The stream stands; if nobody wants it any more, it is closed again."""
        super().opened(stream)
        if self._is_unwanted:
            self.drain()

    def closed(self, error: SteleError | None) -> None:
        """The stream is gone. If the server never said hello, that was its answer."""
        is_cut = self.connection is not None and self.connection.state is State.GREETING
        if is_cut and (error is None or isinstance(error, Unavailable)):
            assert self._stream is not None, "a connection has a stream"
            peer = self._stream.peer
            told = Unreachable(f"{peer} closed the connection before its hello", peer, cuts=1)
            told.__cause__ = error
            error = told
        super().closed(error)

    def _connect(self, stream: ByteStream) -> Connection:
        options = self._options
        link = link_of(stream)
        self._connection = ClientConnection(
            make_hello(
                options.role,
                options.limits,
                name=options.name,
                cluster=options.cluster,
                features=options.features,
            ),
            options.limits,
            self.now_us(),
            clock=self._clock,
            certified=link.certified,
            proof=link.proof,
            expect=options.expect,
        )
        return self._connection

    def _carry_out(self, events: list[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is Answered:
                if not event.context.done():  # type: ignore[union-attr]
                    event.context.set_result(event)  # type: ignore[union-attr]
            elif kind is Item:
                event.context.put(event)  # type: ignore[union-attr]
            else:
                self._carry_out_rare(event)

    def _carry_out_rare(self, event: Event) -> None:
        match event:
            case Failed(context=Inbox() as inbox, error=error):
                inbox.end(error)
            case Failed(context=asyncio.Future() as answer, error=error):
                if not answer.done():
                    answer.set_exception(error)
            case Ended(context=inbox):
                inbox.end()
            case Greeted():
                self.is_open = True
                self.ready.set_result(None)
            case PeerDraining():
                self.is_open = False
            case Closed(error=error):
                self._stop(error)

    def _after_flush(self, connection: Connection) -> None:
        """Let those in who wait for room, first come first served."""
        if not self._waiting:
            return
        limits = connection.limits
        free = self._connection.inflight_max - self._connection.inflight
        while self._waiting and free > 0 and connection.outbox_bytes < limits.outbox_bytes_soft:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1

    def _ended(self, error: SteleError | None) -> None:
        self._stop(error)
        if not self.gone.done():
            self.gone.set_result(error)

    # ---- mechanism ---------------------------------------------------------------------

    def _stop(self, error: SteleError | None) -> None:
        self.is_open = False
        reason = error or Unavailable("the server closed the connection")
        if not self.ready.done():
            self.ready.set_exception(reason)
            self.ready.exception()  # whoever waits is told; nobody needs to
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def _room(self, refusal: Throttled, deadline_us: int) -> None:
        """Wait in line for room, but not past the deadline and not in an endless line."""
        if len(self._waiting) >= WAITING_CALLS_MAX:
            raise refusal
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        timer = self._loop.call_at(deadline_us / SECOND_US, _expire, waiter)
        try:
            await waiter
        except DeadlineExceeded as error:
            raise error from refusal
        finally:
            timer.cancel()
        if self._connection.state is not State.OPEN:
            raise Unavailable("the connection ended before the request was sent")


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(DeadlineExceeded("the request was not sent by the deadline"))
