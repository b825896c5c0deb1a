"""A network of one process: every address is a name, every delivery a job of the tasks.

A connection is two pipes, one for each direction. A pipe holds what is on its way, stops the
sender when that is too much, and delivers in order, the end of the stream last.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stele.env.ports import StreamHandler, Tasks
from stele.errors import AlreadyExists, SteleError, Unavailable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PIPE_BYTES_MAX = 1 << 20
"""More than this on its way in one direction, and the sender is asked to stop."""

PIPE_BYTES_RESUME = PIPE_BYTES_MAX // 2


class _Pipe:
    """One direction of a connection."""

    def __init__(self, tasks: Tasks, sender: MemoryStream, receiver: MemoryStream) -> None:
        self._tasks = tasks
        self._sender = sender
        self._receiver = receiver
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._paused = False
        self._sender_stopped = False
        self._end: tuple[SteleError | None] | None = None

    def put(self, data: bytes) -> None:
        self._queue.append(data)
        self._bytes += len(data)
        if self._bytes > PIPE_BYTES_MAX:
            self._set_sender_stopped(True)
        self._schedule()

    def end(self, error: SteleError | None) -> None:
        """Nothing follows; the receiver hears ``closed`` once it has taken the rest."""
        self._end = (error,)
        self._schedule()

    def discard(self) -> None:
        """Forget what is on its way."""
        self._queue.clear()
        self._bytes = 0

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._schedule()

    def _schedule(self) -> None:
        self._tasks.spawn("network.deliver", self._deliver)

    def _deliver(self) -> None:
        while self._queue and not self._paused:
            data = self._queue.popleft()
            self._bytes -= len(data)
            self._receiver.receive(data)
        if self._bytes <= PIPE_BYTES_RESUME:
            self._set_sender_stopped(False)
        if self._end is not None and not self._queue:
            self._receiver.finish(*self._end)

    def _set_sender_stopped(self, stopped: bool) -> None:
        if stopped != self._sender_stopped:
            self._sender_stopped = stopped
            self._tasks.spawn("network.writable", lambda: self._sender.tell_writable(not stopped))


class MemoryStream:
    """``ByteStream``: one end of a connection, and what its pipes tell it."""

    _incoming: _Pipe
    _outgoing: _Pipe

    def __init__(self, tasks: Tasks, handler: StreamHandler, peer: str) -> None:
        self.peer = peer
        self._tasks = tasks
        self._handler = handler
        self._closing = False
        self._closed = False

    def attach(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def write(self, *buffers: ReadableBuffer) -> None:
        data = b"".join(memoryview(buffer).cast("B") for buffer in buffers)
        if data and not self._closing:
            self._outgoing.put(data)

    def pause_reading(self) -> None:
        self._incoming.pause()

    def resume_reading(self) -> None:
        self._incoming.resume()

    def close(self) -> None:
        self._close(None)

    def abort(self) -> None:
        if not self._closing:
            self._outgoing.discard()
            self._close(Unavailable(f"the connection to {self.peer} was aborted"))

    def _close(self, error: SteleError | None) -> None:
        if not self._closing:
            self._closing = True
            self._outgoing.end(error)
            self._incoming.discard()
            self._tasks.spawn("network.close", lambda: self.finish(error))

    # What the pipes and the network call.

    def open(self) -> None:
        self._handler.opened(self)

    def receive(self, data: bytes) -> None:
        if not self._closing:
            self._handler.received(data)

    def tell_writable(self, ready: bool) -> None:
        if not self._closed:
            self._handler.writable(ready)

    def finish(self, error: SteleError | None) -> None:
        if not self._closed:
            self._closed = self._closing = True
            self._handler.closed(error)


@dataclass(frozen=True, slots=True)
class MemoryListener:
    """``Listener`` of a ``MemoryNetwork``."""

    address: str
    accept: Callable[[], StreamHandler]
    listeners: dict[str, MemoryListener]

    def close(self) -> None:
        if self.listeners.get(self.address) is self:
            del self.listeners[self.address]


class MemoryNetwork:
    """``Network`` between the parts of one deterministic run."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._listeners: dict[str, MemoryListener] = {}
        self._client_numbers = itertools.count(1)

    def listen(self, address: str, accept: Callable[[], StreamHandler]) -> MemoryListener:
        if address in self._listeners:
            raise AlreadyExists(f"something listens at {address} already")
        listener = MemoryListener(address, accept, self._listeners)
        self._listeners[address] = listener
        return listener

    def connect(self, address: str, handler: StreamHandler) -> None:
        self._tasks.spawn("network.connect", lambda: self._meet(address, handler))

    def _meet(self, address: str, handler: StreamHandler) -> None:
        listener = self._listeners.get(address)
        if listener is None:
            handler.closed(Unavailable(f"nothing listens at {address}"))
            return
        near = MemoryStream(self._tasks, handler, address)
        far = MemoryStream(self._tasks, listener.accept(), f"client-{next(self._client_numbers)}")
        to_far = _Pipe(self._tasks, near, far)
        to_near = _Pipe(self._tasks, far, near)
        near.attach(to_near, to_far)
        far.attach(to_far, to_near)
        far.open()
        near.open()
