"""The dialling end: a channel to one address that reconnects by itself.

The first call dials. If that fails, the callers that waited are told so, and until the backoff has
passed further calls are refused at once: a client with several servers can go to the next one. With
`wait=True` a call waits for a connection as long as its deadline allows.

A call whose connection is lost raises `Unavailable`, and its outcome is unknown. The channel never
repeats a call by itself: only the caller knows whether that is safe.

When the server drains, new calls go to a new connection and those in flight finish on the old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from stele.env.ports import Network, Random
from stele.errors import (
    DeadlineExceeded,
    StaleHandle,
    SteleError,
    Throttled,
    Unavailable,
    Unreachable,
)
from stele.rpc.addresses import UNIX_PREFIX
from stele.rpc.backoff_policy import BackoffPolicy
from stele.rpc.client_session import ClientOptions, ClientSession
from stele.rpc.connection import MessageClock
from stele.rpc.events import NO_DEADLINE
from stele.rpc.fork import ForkGuard
from stele.rpc.framing import Buffer
from stele.rpc.limits import SECOND_US
from stele.rpc.network import SocketNetwork
from stele.rpc.service import (
    OneWay,
    Reply,
    Req,
    Resp,
    ServerStream,
    Unary,
    encode_message,
    read_response,
)
from stele.rpc.stream import Stream
from stele.rpc.tls import Credentials
from stele.rpc.wire_format import Origin

TIMEOUT_S: Final = 30.0
"""Deadline of a call that names none."""

CLOSE_GRACE_S: Final = 5.0

CUTS_TOLD: Final = 2
"""One connection may be cut because the server ends; after so many there is more to it."""

CUT_WITH_TLS: Final = (
    "it refuses this certificate, or does not speak TLS; check --tls-cert and --tls-ca (or tls=): "
    "authority, dates, stele:// URI, and what the server's log says"
)
CUT_WITHOUT_TLS: Final = (
    "it may speak TLS only; give certificates (--tls-cert, --tls-key and --tls-ca, or tls=)"
)
CUT_LOCALLY: Final = "the server's log says why"


class Channel:
    """Calls to one server. Belongs to the loop it was made in."""

    def __init__(
        self,
        address: str,
        options: ClientOptions | None = None,
        *,
        random: Random,
        credentials: Credentials | None = None,
        network: Network | None = None,
        clock: MessageClock | None = None,
        backoff: BackoffPolicy | None = None,
    ):
        self.address = address
        self._options = options or ClientOptions()
        self._random = random
        self._network: Network = network or SocketNetwork(credentials)
        self._has_tls = credentials is not None
        self._clock = clock
        self._backoff = backoff or BackoffPolicy()
        self._loop = asyncio.get_running_loop()
        self._fork = ForkGuard(f"the channel to {address}")
        self._session: ClientSession | None = None
        self._draining: set[ClientSession] = set()
        self._failures = 0
        self._cuts = 0
        self._retry_at_us = 0
        self._last_error: SteleError | None = None
        self._closed = False

    # ---- calls -------------------------------------------------------------------------

    async def call(
        self,
        method: Unary[Req, Resp],
        request: Req,
        *,
        timeout_s: float = TIMEOUT_S,
        wait: bool = False,
        origin: Origin | None = None,
    ) -> Resp:
        """One request, one response. Raises what the handler raised."""
        session = self._session
        now_us = int(self._loop.time() * SECOND_US)
        deadline_us = now_us + int(timeout_s * SECOND_US)
        body = encode_message(request)
        # The common case has no await of its own: a connection that stands and has room.
        if session is None or not session.is_open or self._fork.inherited:
            session = await self._open_session(deadline_us, wait)
            now_us = session.now_us()
        try:
            request_id, answer = session.start(method.number, body, deadline_us, now_us, (), origin)
        except Throttled:
            request_id, answer = await session.start_when_possible(
                method.number, body, deadline_us, (), origin
            )
        try:
            answered = await answer
        except asyncio.CancelledError:
            session.cancel(request_id)
            raise
        return read_response(method, answered.body)

    async def call_attached(
        self,
        method: Unary[Req, Resp],
        request: Req,
        attachments: Sequence[Buffer] = (),
        *,
        timeout_s: float = TIMEOUT_S,
        wait: bool = False,
        origin: Origin | None = None,
    ) -> Reply[Resp]:
        """The same with raw attachments, there and back. They must not change until it returns."""
        deadline_us = self._deadline_us(timeout_s)
        session = await self._open_session(deadline_us, wait)
        request_id, answer = await session.start_when_possible(
            method.number, encode_message(request), deadline_us, attachments, origin
        )
        try:
            answered = await answer
        except asyncio.CancelledError:
            session.cancel(request_id)
            raise
        return Reply(read_response(method, answered.body), answered.attachments)

    async def stream(
        self,
        method: ServerStream[Req, Resp],
        request: Req,
        *,
        timeout_s: float | None = None,
        wait: bool = False,
        origin: Origin | None = None,
    ) -> Stream[Resp]:
        """Ask for a stream. Without a timeout it lasts as long as both sides want."""
        deadline_us = self._deadline_us(TIMEOUT_S if timeout_s is None else timeout_s)
        session = await self._open_session(deadline_us, wait)
        request_id, inbox = session.open_stream(
            method.number,
            encode_message(request),
            NO_DEADLINE if timeout_s is None else deadline_us,
            origin,
        )
        return Stream(session, request_id, inbox, method, self._loop)

    def send(
        self,
        method: OneWay[Req],
        message: Req,
        attachments: Sequence[Buffer] = (),
        *,
        origin: Origin | None = None,
        at_once: bool = False,
    ) -> None:
        """Send a message without an answer. If there is no connection now, it is not sent.

        ``at_once`` is for who has gathered all that there is to say: it is written before this
        returns, and not together with what others send in this turn."""
        session = self._session
        if session is None or not session.is_open or self._closed or self._fork.inherited:
            self._check_usable()
            self._dial_if_due()
            raise Unavailable(f"no connection to {self.address} yet") from self._last_error
        body = encode_message(message)
        session.send(method.number, body, attachments, origin, at_once=at_once)

    async def connect(self, *, timeout_s: float = TIMEOUT_S, wait: bool = True) -> None:
        """Return when there is an open connection."""
        await self._open_session(self._deadline_us(timeout_s), wait)

    def dial(self) -> None:
        """Begin to connect, unless there is a connection or the last attempt was just now."""
        self._check_usable()
        if not self.is_open:
            self._dial_if_due()

    @property
    def is_open(self) -> bool:
        """Whether a call would go out now."""
        return self._session is not None and self._session.is_open

    async def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Refuse new calls, let those in flight finish within the grace, then cut them."""
        if self._fork.inherited or self._closed:
            return
        self._closed = True
        sessions = set(self._draining)
        if self._session is not None:
            sessions.add(self._session)
        for session in sessions:
            session.drain()
        if sessions:
            await asyncio.wait([session.gone for session in sessions], timeout=grace_s)
        for session in sessions:
            session.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ---- connections -------------------------------------------------------------------

    def _now_us(self) -> int:
        return int(self._loop.time() * SECOND_US)

    def _deadline_us(self, timeout_s: float) -> int:
        return int((self._loop.time() + timeout_s) * SECOND_US)

    def _check_usable(self) -> None:
        self._fork.check()
        if self._closed:
            raise StaleHandle(f"the channel to {self.address} is closed")

    async def _open_session(self, deadline_us: int, wait: bool) -> ClientSession:
        """An open connection, dialled if need be."""
        while True:
            self._check_usable()
            session = self._session
            if session is not None and session.is_open:
                return session
            session = self._dial_if_due()
            if session is None and not wait:
                raise self._unreachable() from self._last_error
            try:
                async with asyncio.timeout_at(deadline_us / SECOND_US):
                    if session is None:
                        await asyncio.sleep((self._retry_at_us - self._now_us()) / SECOND_US)
                    else:
                        await asyncio.wait([session.ready])
                        session.ready.result()
            except TimeoutError as error:
                raise DeadlineExceeded(self._late()) from error
            except Unavailable as error:
                if not wait:
                    raise self._unreachable() from error
            except SteleError:
                if not wait:
                    raise

    def _late(self) -> str:
        late = f"no connection to {self.address} in time"
        return late if self._last_error is None else f"{late}; at last: {self._unreachable()}"

    def _unreachable(self) -> Unreachable:
        """Why there is no connection, and what to check if the server seems not to want one."""
        told = str(self._last_error)
        if self._cuts >= CUTS_TOLD:
            hint = CUT_WITH_TLS if self._has_tls else CUT_WITHOUT_TLS
            told += f", {self._cuts} times in a row: "
            told += CUT_LOCALLY if self.address.startswith(UNIX_PREFIX) else hint
        return Unreachable(told, self.address, self._cuts)

    def _dial_if_due(self) -> ClientSession | None:
        """The connection that is being made, a new one, or none while the backoff lasts."""
        session = self._session
        if session is not None and not session.ready.done():
            return session
        if session is not None:
            self._draining.add(session)
            session.gone.add_done_callback(lambda _: self._draining.discard(session))
            self._session = None
        if self._now_us() < self._retry_at_us:
            return None
        dialled = ClientSession(self._options, self._clock, self._loop)
        dialled.ready.add_done_callback(self._on_dialled)
        self._network.connect(self.address, dialled)  # raises for what is no address
        self._session = dialled
        return dialled

    def _on_dialled(self, ready: asyncio.Future[None]) -> None:
        error = ready.exception()
        if error is None:
            self._failures = self._cuts = 0
            return
        assert isinstance(error, SteleError), "a connection fails with one of our errors"
        self._last_error = error
        self._failures += 1
        is_cut = isinstance(error, Unreachable) and error.cuts > 0
        self._cuts = self._cuts + 1 if is_cut else 0
        dice = self._random.below(self._backoff.span_us(self._failures) // 2)
        self._retry_at_us = self._now_us() + self._backoff.wait_us(self._failures, dice)
