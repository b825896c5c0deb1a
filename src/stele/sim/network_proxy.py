"""A bad network between real processes: a TCP proxy on loopback that delays, stalls and cuts.

Every ordered pair of nodes that talk gets a *link*, an address of its own: node a reaches b through
``proxy.link("a", "b", address_of_b)`` and never directly. What happens to bytes depends only on
where they come from and where they go, in whatever direction the connection was opened, so a
partition can be one-way, as real ones are:

    proxy.set("a", "b", Weather(blocked=True))     nothing from a reaches b; b is heard by a
    proxy.isolate("a")                             nothing to or from a
    proxy.heal()                                   all as before

TCP hides loss from those who use it: a lost packet comes late, and a lost connection is reset. The
proxy does the same. *Blocked* bytes wait and arrive when the block ends, as after a partition that
was shorter than everybody's patience; new connections hang in the meantime. *Reset* ends
connections, by hand or by chance with every so many pieces. Nothing is ever altered or left out
from the middle of a stream.

The proxy runs on an event loop in a thread of its own, so that tests of any kind can use it; its
methods may be called from any thread, and what they ask for is done when they return.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from stele.env.ports import Random
from stele.errors import AlreadyExists, InvalidArgument
from stele.rpc.addresses import TcpAddress, parse_address

CHUNK_BYTES_MAX = 64 * 1024
"""What is read at once, and delayed and lost together."""

CHUNKS_IN_FLIGHT_MAX = 64
"""For each direction of a connection; then the sender feels it. Four MiB, as in a fat pipe."""

MICROSECONDS_PER_SECOND = 1_000_000

LINGER_NOT = struct.pack("ii", 1, 0)
"""``struct linger``: on, for zero seconds. The kernel drops what is unsent and says reset."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to bytes on their way from one node to another."""

    blocked: bool = False
    """Nothing arrives; what was sent waits."""
    refused: bool = False
    """New connections are reset at once."""
    delay_us: int = 0
    jitter_us: int = 0
    """Up to so much more for each piece, by chance. Pieces never overtake each other."""
    reset_one_in: int = 0
    """With every piece the connection is reset with this chance; 0 is never."""
    bytes_per_s_max: int = 0
    """For each connection; 0 is without limit."""


FAIR = Weather()


class _Lane:
    """The way from one node to another, shared by all connections that take it."""

    def __init__(self) -> None:
        self.weather = FAIR
        self._passable = asyncio.Event()

    def set(self, weather: Weather) -> None:
        self.weather = weather
        if weather.blocked:
            self._passable.clear()
        else:
            self._passable.set()

    async def pass_through(self, counters: Counter[str]) -> None:
        """Return when nothing is in the way."""
        if self.weather.blocked:
            counters["stalled"] += 1
        while self.weather.blocked:
            await self._passable.wait()


@dataclass(slots=True)
class _Link:
    """An address at which one node reaches another, and the connections through it."""

    target: TcpAddress
    there: _Lane
    back: _Lane
    server: asyncio.Server | None = None
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def reset(self) -> None:
        for writer in self.writers:
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other end is told of a reset, and not of an orderly close."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
    writer.transport.abort()


class _Pipe:
    """One direction of one connection. Two tasks: one reads ahead, one delivers when it is time."""

    def __init__(
        self,
        lane: _Lane,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        dice: Random,
        counters: Counter[str],
    ) -> None:
        self._lane = lane
        self._reader = reader
        self._writer = writer
        self._dice = dice
        self._counters = counters
        self._queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_IN_FLIGHT_MAX)
        self._sent_at = 0.0
        self._due_at = 0.0

    async def run(self) -> None:
        """Until the sender has closed and everything is delivered, or the connection is reset."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read())
            tasks.create_task(self._deliver())

    async def _read(self) -> None:
        while True:
            data = await self._reader.read(CHUNK_BYTES_MAX)
            await self._queue.put((self._due(len(data)), data))
            if not data:
                return

    def _due(self, length: int) -> float:
        """When a piece that was sent now arrives: not before the one ahead of it."""
        weather, now = self._lane.weather, asyncio.get_running_loop().time()
        self._sent_at = max(now, self._sent_at)
        if weather.bytes_per_s_max:
            self._sent_at += length / weather.bytes_per_s_max
        delay_us = weather.delay_us
        if weather.jitter_us:
            delay_us += self._dice.below(weather.jitter_us + 1)
        arrives_at = self._sent_at + delay_us / MICROSECONDS_PER_SECOND
        self._due_at = max(self._due_at, arrives_at)
        return self._due_at

    async def _deliver(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_at, data = await self._queue.get()
            wait_s = due_at - loop.time()
            if wait_s > 0:
                self._counters["delayed"] += 1
                await asyncio.sleep(wait_s)
            await self._lane.pass_through(self._counters)
            if not data:
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                return
            one_in = self._lane.weather.reset_one_in
            if one_in and self._dice.below(one_in) == 0:
                self._counters["reset by chance"] += 1
                raise ConnectionResetError
            self._counters["bytes"] += len(data)
            self._writer.write(data)
            await self._writer.drain()


class NetworkProxy:
    """Links between named nodes; a context manager. ``counters`` say what really happened."""

    def __init__(self, dice: Random) -> None:
        self.counters: Counter[str] = Counter()
        self._dice = dice
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="network-proxy", daemon=True)
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._links: dict[tuple[str, str], _Link] = {}
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def link(self, source: str, target: str, address: str) -> str:
        """The address at which ``source`` reaches ``target``, which listens at ``address``."""
        where = parse_address(address)
        if not isinstance(where, TcpAddress):
            raise InvalidArgument(f"{address} is no TCP address")
        return self._await(self._listen(source, target, where))

    def mesh(self, addresses: dict[str, str]) -> dict[tuple[str, str], str]:
        """Links between all nodes: for each pair where the first one reaches the second one."""
        return {
            (source, target): self.link(source, target, address)
            for target, address in addresses.items()
            for source in addresses
            if source != target
        }

    def set(self, source: str, target: str, weather: Weather) -> None:
        """From now on for bytes from ``source`` to ``target``."""
        self._call(lambda: self._lane(source, target).set(weather))

    def isolate(self, node: str) -> None:
        """Nothing to and nothing from a node."""
        self._block(lambda source, target: node in (source, target))

    def partition(self, group: Iterable[str]) -> None:
        """Nothing between the group and all others; inside all is as before."""
        inside = frozenset(group)
        self._block(lambda source, target: (source in inside) is not (target in inside))

    def heal(self, *, reset: bool = False) -> None:
        """Fair weather everywhere. After a long partition connections would be reset, too."""

        def apply() -> None:
            for lane in self._lanes.values():
                lane.set(FAIR)
            if reset:
                self._reset(lambda _source, _target: True)

        self._call(apply)

    def reset(self, source: str, target: str) -> None:
        """End all connections that ``source`` has to ``target``, at once and for both."""
        self._call(lambda: self._reset(lambda *pair: pair == (source, target)))

    def _block(self, affected: Callable[[str, str], bool]) -> None:
        def apply() -> None:
            for (source, target), lane in self._lanes.items():
                if affected(source, target):
                    lane.set(Weather(blocked=True))

        self._call(apply)

    def _reset(self, affected: Callable[[str, str], bool]) -> None:
        for (source, target), link in self._links.items():
            if affected(source, target):
                self.counters["reset"] += len(link.writers) // 2
                link.reset()

    def _lane(self, source: str, target: str) -> _Lane:
        return self._lanes.setdefault((source, target), _Lane())

    async def _listen(self, source: str, target: str, where: TcpAddress) -> str:
        if (source, target) in self._links:
            raise AlreadyExists(f"there is a link from {source} to {target}")
        link = _Link(where, self._lane(source, target), self._lane(target, source))

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._connection(link, reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        link.server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._links[source, target] = link
        return str(TcpAddress(*link.server.sockets[0].getsockname()[:2]))

    async def _connection(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.counters["connections"] += 1
        writers = {writer}
        link.writers |= writers
        try:
            if link.there.weather.refused:
                return
            await link.there.pass_through(self.counters)
            await link.back.pass_through(self.counters)
            far_reader, far_writer = await asyncio.open_connection(
                link.target.host, link.target.port
            )
            writers.add(far_writer)
            link.writers |= writers
            async with asyncio.TaskGroup() as pipes:
                pipes.create_task(self._pipe(link.there, reader, far_writer).run())
                pipes.create_task(self._pipe(link.back, far_reader, writer).run())
            for each in writers:
                each.close()  # sends what is left first
                await each.wait_closed()
        except (OSError, ExceptionGroup):
            self.counters["connections broken"] += 1
        finally:
            link.writers -= writers
            for each in writers:
                _reset(each)
                with suppress(OSError):
                    await each.wait_closed()

    def _pipe(
        self, lane: _Lane, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Pipe:
        return _Pipe(lane, reader, writer, self._dice, self.counters)

    async def _close(self) -> None:
        for link in self._links.values():
            assert link.server is not None
            link.server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, change: Callable[[], None]) -> None:
        async def apply() -> None:
            change()

        self._await(apply())

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
