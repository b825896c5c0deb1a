"""A session gathers writes, keeps one timer, and lets a closing stream go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stele.env.ports import ByteStream
from stele.errors import SteleError, Unavailable
from stele.rpc.client_connection import ClientConnection
from stele.rpc.connection import Connection, make_hello
from stele.rpc.connection_states import State
from stele.rpc.events import Closed, Event, Failed
from stele.rpc.identity import Role
from stele.rpc.limits import Limits
from stele.rpc.server_connection import ServerConnection
from stele.rpc.transport import Session
from tests.unit.rpc.support import START_US, kinds_of, settle

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Pipe:
    """A stream that remembers its writes."""

    peer = "pipe"

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        self.aborted = False

    def write(self, *buffers: ReadableBuffer) -> None:
        self.writes.append(b"".join(bytes(buffer) for buffer in buffers))

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Plain(Session):
    """A session that only remembers its events."""

    link: ClientConnection

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(asyncio.get_running_loop())
        self.limits = limits or Limits()
        self.events: list[Event] = []
        self.flushes = 0
        self.end: list[SteleError | None] = []

    def _connect(self, stream: ByteStream) -> Connection:
        hello = make_hello(Role.CLIENT, self.limits)
        self.link = ClientConnection(hello, self.limits, self.now_us())
        return self.link

    def _carry_out(self, events: list[Event]) -> None:
        self.events += events

    def _after_flush(self, connection: Connection) -> None:
        self.flushes += 1

    def _ended(self, error: SteleError | None) -> None:
        self.end.append(error)

    def ask(self, timeout_us: int = 10_000_000) -> None:
        now_us = self.now_us()
        self.link.request(1, b"q", deadline_us=now_us + timeout_us, now_us=now_us, context="c")
        self.touch()


def opened(limits: Limits | None = None) -> tuple[Plain, Pipe]:
    """A session that has said hello and got an answer."""
    session, pipe = Plain(limits), Pipe()
    session.opened(pipe)
    server = ServerConnection(make_hello(Role.MASTER, Limits()), Limits(), START_US)
    server.receive_data(pipe.writes.pop(), START_US)
    session.received(b"".join(server.take_output()))
    session.events.clear()
    return session, pipe


async def test_what_is_queued_in_one_turn_leaves_in_one_write() -> None:
    session, pipe = opened()
    for _ in range(3):
        session.ask()
    assert pipe.writes == []
    await settle()
    assert [kinds_of(data) for data in pipe.writes] == [["request"] * 3]


async def test_output_waits_while_the_stream_has_enough() -> None:
    session, pipe = opened()
    session.writable(False)
    session.ask()
    await settle()
    assert pipe.writes == []
    assert session.link.outbox_bytes > 0
    session.writable(True)
    assert [kinds_of(data) for data in pipe.writes] == [["request"]]


async def test_the_timer_follows_the_earliest_deadline() -> None:
    session, _ = opened()
    session.ask(10_000_000)
    await settle()
    session.ask(1_000)
    async with asyncio.timeout(5):
        while not session.events:
            await asyncio.sleep(0.001)
    (event,) = session.events
    assert isinstance(event, Failed)
    session.closed(None)


async def test_a_connection_that_fails_says_farewell_and_closes_its_stream() -> None:
    session, pipe = opened()
    session.writable(False)
    session.link.fail(Unavailable("enough"))
    session.touch()
    await settle()
    assert kinds_of(pipe.writes[0]) == ["error"]
    assert pipe.closed
    assert isinstance(session.events[0], Closed)
    session.closed(None)
    assert session.end == [None]


async def test_a_stream_that_does_not_let_go_is_aborted() -> None:
    session, pipe = opened()
    session.link.drain()
    session.touch()
    await settle()
    assert [pipe.closed, pipe.aborted] == [True, False]
    session.abort()
    assert [pipe.closed, pipe.aborted] == [True, True]
    session.closed(None)


async def test_a_lost_stream_ends_the_connection() -> None:
    session, _ = opened()
    session.ask()
    session.closed(Unavailable("cable"))
    failed, closed = session.events
    assert isinstance(failed, Failed)
    assert isinstance(closed, Closed)
    assert session.link.state is State.CLOSED
    await settle()


async def test_a_stream_that_never_opened_only_ends() -> None:
    session = Plain()
    session.closed(Unavailable("refused"))
    session.touch()
    await settle()
    assert session.connection is None
    assert [str(error) for error in session.end] == ["refused"]
