"""A connection on a running loop: what server and channel have in common.

A `Session` is the handler of one byte stream. It feeds what arrives to the I/O-free connection,
carries out its events, writes its output and wakes it when its time has come.

Writes are gathered: what is queued within one turn of the loop leaves in one write. In a turn that
began with received bytes that is at the end of their handling, otherwise `touch` asks for a turn.
Once a few kilobytes are together they leave at once: the peer can begin with them while the rest
is being made, and otherwise the two ends would take turns instead of working side by side. When
the transport has enough it says so, and the output waits in the connection, where it is counted
against its limits.

One timer serves all deadlines of a connection. It is set for the earliest and, if that has moved
on when it fires, set again, which is cheaper than cancelling it for every request.
"""

from __future__ import annotations

import abc
import asyncio
from typing import Final

from stele.env.ports import ByteStream
from stele.errors import SteleError
from stele.rpc.connection import NEVER_US, Connection
from stele.rpc.connection_states import State
from stele.rpc.events import Event
from stele.rpc.limits import SECOND_US

WRITE_AT_BYTES: Final = 8192
"""About thirty small messages: enough to share the cost of a write, few enough not to wait."""

LINGER_S: Final = 2.0
"""How long a closing connection may take to hand its last bytes to the peer."""


class Session(abc.ABC):
    """`StreamHandler` of one connection. Belongs to one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.connection: Connection | None = None
        self._loop = loop
        self._stream: ByteStream | None = None
        self._writable = True
        self._flush_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = NEVER_US
        self._closing = False

    # ---- what the two ends fill in -----------------------------------------------------

    @abc.abstractmethod
    def _connect(self, stream: ByteStream) -> Connection:
        """The connection for a stream that has opened."""

    @abc.abstractmethod
    def _carry_out(self, events: list[Event]) -> None:
        """Act on what the connection says."""

    @abc.abstractmethod
    def _after_flush(self, connection: Connection) -> None:
        """Output has left, or could not; look again at who waits for room."""

    @abc.abstractmethod
    def _ended(self, error: SteleError | None) -> None:
        """The stream is closed, or never opened."""

    # ---- what the stream calls ---------------------------------------------------------

    def opened(self, stream: ByteStream) -> None:
        """The stream stands."""
        self._stream = stream
        self.connection = self._connect(stream)
        self.flush()

    def received(self, data: bytes) -> None:
        """Bytes have come."""
        connection = self.connection
        assert connection is not None, "bytes before the stream opened"
        connection.receive_data(data, int(self._loop.time() * SECOND_US))
        self.flush()

    def reserve(self) -> memoryview | None:
        """Where the stream may put its next bytes by itself, if a large frame has begun."""
        return None if self.connection is None else self.connection.reserve()

    def received_in_place(self, size: int) -> None:
        """Bytes have come to what `reserve` gave."""
        assert self.connection is not None, "bytes before the stream opened"
        self.connection.receive_in_place(size, self.now_us())
        self.flush()

    def writable(self, ready: bool) -> None:
        """The stream has room, or has enough."""
        self._writable = ready
        if ready:
            self.flush()

    def closed(self, error: SteleError | None) -> None:
        """The stream is gone."""
        self._cancel_timer()
        self._closing = True
        connection = self.connection
        if connection is not None:
            connection.lost(error)
            self._carry_out(connection.take_events())
        self._ended(error)

    # ---- what the owner calls ----------------------------------------------------------

    def now_us(self) -> int:
        """The time of the loop."""
        return int(self._loop.time() * SECOND_US)

    def touch(self) -> None:
        """Something was queued: write it in the next turn, or now if there is enough of it."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)
        self.write_if_enough()

    def write_if_enough(self) -> None:
        """Something was queued in a turn that flushes anyway: write it now if there is enough."""
        connection = self.connection
        if connection is not None and connection.outbox_bytes >= WRITE_AT_BYTES:
            self._write()

    def abort(self) -> None:
        """Close without waiting for the peer."""
        if self._stream is not None:
            self._stream.abort()

    def write_now(self) -> None:
        """Something was queued that should not wait for the next turn."""
        if not self._closing:
            self._write()

    def flush(self) -> None:
        """Act on what has happened, write what is queued, look when to wake."""
        self._flush_due = False
        connection, stream = self.connection, self._stream
        if connection is None or stream is None or self._closing:
            return
        if events := connection.take_events():
            self._carry_out(events)
        if connection.state is State.CLOSED:
            stream.write(*connection.take_output())
            self._close(stream)
            return
        if connection.outbox_bytes:
            self._write()
        self._after_flush(connection)
        due_us = connection.next_time_us
        if due_us < self._timer_us:
            self._set_timer(due_us)

    # ---- mechanism ---------------------------------------------------------------------

    def _write(self) -> None:
        """Hand the output over, unless the stream has enough."""
        connection, stream = self.connection, self._stream
        assert connection is not None
        if connection.outbox_bytes and self._writable and stream is not None:
            stream.write(*connection.take_output())

    def _close(self, stream: ByteStream) -> None:
        """Let the last bytes go, but do not wait for a peer that does not take them."""
        self._closing = True
        self._cancel_timer()
        stream.close()
        self._timer = self._loop.call_later(LINGER_S, stream.abort)

    def _set_timer(self, due_us: int) -> None:
        self._cancel_timer()
        self._timer_us = due_us
        self._timer = self._loop.call_at(due_us / SECOND_US, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._timer_us = NEVER_US

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_us = NEVER_US
        connection = self.connection
        if connection is not None:
            connection.on_time(self.now_us())
            self.flush()
