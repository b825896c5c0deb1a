"""What the tests of the RPC share: a pair of connections, a small service, a memory network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import msgspec

from stele.env.memory_network import MemoryNetwork
from stele.env.ports import Network
from stele.errors import SteleError
from stele.rpc import wire_format as wire
from stele.rpc.channel import Channel
from stele.rpc.client_connection import ClientConnection
from stele.rpc.client_session import ClientOptions
from stele.rpc.connection import Connection, MessageClock, make_hello
from stele.rpc.events import Closed, Event
from stele.rpc.framing import Frame, FrameDecoder
from stele.rpc.identity import EVERYONE, Role, allow
from stele.rpc.limits import Limits
from stele.rpc.server import Server, ServerOptions
from stele.rpc.server_connection import ServerConnection
from stele.rpc.service import Binding, Context, Registry, Reply, Service
from stele.rpc.tls import Credentials

START_US = 1_000_000
LARGE_BYTES = 64 << 20


def output_of(connection: Connection) -> bytes:
    """Everything a connection wants to send, in one piece."""
    return b"".join(connection.take_output())


def frames_of(data: bytes, *, preface: bool = False) -> list[Frame]:
    """The frames in bytes that are known to be good."""
    decoder = FrameDecoder(LARGE_BYTES, preface=preface)
    frames = decoder.feed(data)
    assert decoder.error is None
    assert decoder.buffered_bytes == 0
    return frames


def kinds_of(data: bytes) -> list[str]:
    """The names of the frames in good bytes."""
    return [wire.KIND_NAMES[frame.kind] for frame in frames_of(data)]


def closing_error(events: list[Event]) -> SteleError | None:
    """Why a connection ended; it must have."""
    (closed,) = [event for event in events if isinstance(event, Closed)]
    return closed.error


class Pair:
    """A client and a server connection with a perfect wire between them, and one clock."""

    def __init__(
        self,
        *,
        client_limits: Limits | None = None,
        server_limits: Limits | None = None,
        client_clock: MessageClock | None = None,
        server_clock: MessageClock | None = None,
        client_options: dict[str, Any] | None = None,
        server_options: dict[str, Any] | None = None,
        greet: bool = True,
    ):
        self.now_us = START_US
        client_limits = client_limits or Limits()
        server_limits = server_limits or Limits()
        self.client = ClientConnection(
            make_hello(Role.CLIENT, client_limits, name="ada"),
            client_limits,
            self.now_us,
            clock=client_clock,
            **client_options or {},
        )
        self.server = ServerConnection(
            make_hello(Role.METASTORE, server_limits, name="m1"),
            server_limits,
            self.now_us,
            clock=server_clock,
            **server_options or {},
        )
        if greet:
            self.pump()
            self.events()

    def pump(self) -> None:
        """Carry bytes both ways until there are none."""
        while True:
            to_server, to_client = output_of(self.client), output_of(self.server)
            if not to_server and not to_client:
                return
            self.server.receive_data(to_server, self.now_us)
            self.client.receive_data(to_client, self.now_us)

    def to_server(self) -> list[Event]:
        """Carry the client's bytes over; what the server says to that."""
        self.server.receive_data(output_of(self.client), self.now_us)
        return self.server.take_events()

    def to_client(self) -> list[Event]:
        """Carry the server's bytes over; what the client says to that."""
        self.client.receive_data(output_of(self.server), self.now_us)
        return self.client.take_events()

    def events(self) -> tuple[list[Event], list[Event]]:
        """What client and server have to say."""
        return self.client.take_events(), self.server.take_events()

    def request(self, context: Any = "context", body: bytes = b"q", **options: Any) -> int:
        """A request of the client that has not been carried over yet."""
        options.setdefault("deadline_us", self.now_us + 1_000_000)
        return self.client.request(0x0101, body, now_us=self.now_us, context=context, **options)


class Text(msgspec.Struct):
    """The one message of the test services."""

    text: str = ""
    count: int = 0


class EchoService:
    """A service with one method of each kind; the test chooses what it does."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.service = Service("echo", 7, self.registry)
        permission = allow("echo", *EVERYONE)
        self.echo = self.service.unary(
            "echo",
            1,
            request=Text,
            response=Text,
            permission=permission,
            request_bytes_max=1 << 20,
            takes_attachments=True,
        )
        self.count = self.service.stream(
            "count", 2, request=Text, response=Text, permission=permission
        )
        self.note = self.service.one_way("note", 3, request=Text, permission=permission)
        self.guarded = self.service.unary(
            "guarded", 4, request=Text, response=Text, permission=allow("repair", Role.MASTER)
        )
        self.plain = self.service.unary(
            "plain", 5, request=Text, response=Text, permission=permission
        )
        self.noted: list[str] = []
        self.contexts: list[Context] = []
        self.on_echo: Callable[[Context, Text], Any] = self.answer_echo
        self.on_plain: Callable[[Context, Text], Any] = lambda _context, request: request
        self.on_count: Callable[[Context, Text], AsyncIterator[Any]] = self.answer_count

    async def answer_echo(self, context: Context, request: Text) -> Reply[Text]:
        self.contexts.append(context)
        return Reply(request, context.attachments)

    async def answer_count(self, _context: Context, request: Text) -> AsyncIterator[Text]:
        for number in range(request.count):
            yield Text(request.text, number)

    async def _echo(self, context: Context, request: Text) -> Reply[Text]:
        reply: Reply[Text] = await self.on_echo(context, request)
        return reply

    def _count(self, context: Context, request: Text) -> AsyncIterator[Text]:
        return self.on_count(context, request)

    def _note(self, _context: Context, request: Text) -> None:
        self.noted.append(request.text)

    def _plain(self, context: Context, request: Text) -> Any:
        return self.on_plain(context, request)

    async def _guarded(self, _context: Context, request: Text) -> Text:
        return request

    def bindings(self) -> tuple[Binding, ...]:
        return self.service.bind(
            self.echo.handled_by(self._echo),
            self.count.handled_by(self._count),
            self.note.handled_by(self._note),
            self.guarded.handled_by(self._guarded),
            self.plain.handled_by(self._plain),
        )


class LoopTasks:
    """`Tasks` whose jobs are callbacks of the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def spawn(self, name: str, job: Callable[[], None]) -> None:
        self._loop.call_soon(job)

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_us / 1e6, callback)


def memory_network() -> MemoryNetwork:
    """A network inside the running loop."""
    return MemoryNetwork(LoopTasks())


class CountingRandom:
    """`Random` that always draws the lowest number, and says how often it was asked."""

    def __init__(self) -> None:
        self.draws = 0

    def bytes(self, length: int) -> bytes:
        return bytes(length)

    def below(self, bound: int) -> int:
        assert bound > 0
        self.draws += 1
        return 0


async def settle(turns: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)


class World:
    """A server and channels to it on a memory network, closed on exit."""

    def __init__(
        self,
        *,
        server_limits: Limits | None = None,
        client_limits: Limits | None = None,
        network: Network | None = None,
        address: str = "m1:7420",
        server_options: dict[str, Any] | None = None,
        credentials: Credentials | None = None,
    ):
        self.echo = EchoService()
        self.network: Network = network or memory_network()
        self.random = CountingRandom()
        self._client_limits = client_limits or Limits()
        self._channels: list[Channel] = []
        self.server = Server(
            self.echo.bindings(),
            ServerOptions(
                role=Role.METASTORE,
                name="m1",
                limits=server_limits or Limits(),
                **server_options or {},
            ),
            network=self.network,
            credentials=credentials,
        )
        self.address = self.server.listen(address)

    def channel(self, role: Role = Role.CLIENT, **options: Any) -> Channel:
        """A new channel to the server, closed with the world."""
        client = ClientOptions(role=role, limits=self._client_limits)
        options.setdefault("network", self.network)
        channel = Channel(
            options.pop("address", self.address), client, random=self.random, **options
        )
        self._channels.append(channel)
        return channel

    async def close(self) -> None:
        """Close everything, without patience."""
        for channel in self._channels:
            await channel.close(grace_s=0.0)
        await self.server.close(grace_s=0.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
        assert not self.server.sessions
        assert self.server.inflight_budget.bytes_used == 0
        assert self.server.assembly_budget.bytes_used == 0
