"""One connection of a channel: waiting in line, and what the end means for those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from stele.env.ports import Listener, Network, StreamHandler
from stele.errors import DeadlineExceeded, Throttled, Unavailable
from stele.rpc import client_session
from stele.rpc.channel import Channel
from stele.rpc.client_session import ClientOptions, ClientSession
from stele.rpc.identity import SERVERS, Role
from stele.rpc.limits import Limits
from stele.rpc.service import Context, Reply
from tests.unit.rpc.support import CountingRandom, Text, World, settle


class Gate:
    """A handler that holds every call until it is told to let go."""

    def __init__(self) -> None:
        self.running = 0
        self.running_max = 0
        self.open = asyncio.Event()

    async def __call__(self, _context: Context, request: Text) -> Reply[Text]:
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        await self.open.wait()
        self.running -= 1
        return Reply(request)


async def test_calls_above_the_limit_wait_in_line() -> None:
    async with World(server_limits=Limits(inflight_max=4)) as world:
        gate = world.echo.on_echo = Gate()
        channel = world.channel()
        calls = [
            asyncio.ensure_future(channel.call(world.echo.echo, Text("", number)))
            for number in range(50)
        ]
        await settle(50)
        assert gate.running == 4
        gate.open.set()
        answers = await asyncio.gather(*calls)
        assert [answer.count for answer in answers] == list(range(50))
        assert gate.running_max == 4


async def test_a_waiting_call_ends_at_its_deadline() -> None:
    async with World(server_limits=Limits(inflight_max=1)) as world:
        gate = world.echo.on_echo = Gate()
        channel = world.channel()
        first = asyncio.ensure_future(channel.call(world.echo.echo, Text()))
        await settle()
        with pytest.raises(DeadlineExceeded, match="not sent"):
            await channel.call(world.echo.echo, Text(), timeout_s=0.02)
        gate.open.set()
        await first


async def test_the_line_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_session, "WAITING_CALLS_MAX", 2)
    async with World(server_limits=Limits(inflight_max=1)) as world:
        gate = world.echo.on_echo = Gate()
        channel = world.channel()
        calls = [asyncio.ensure_future(channel.call(world.echo.echo, Text())) for _ in range(3)]
        await settle()
        with pytest.raises(Throttled):
            await channel.call(world.echo.echo, Text())
        gate.open.set()
        await asyncio.gather(*calls)


async def test_those_who_wait_hear_of_the_end() -> None:
    async with World(server_limits=Limits(inflight_max=1)) as world:
        world.echo.on_echo = Gate()
        channel = world.channel()
        calls = [asyncio.ensure_future(channel.call(world.echo.echo, Text())) for _ in range(5)]
        await settle()
        (session,) = world.server.sessions
        session.abort()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}


async def test_a_session_that_could_not_connect_is_told_why() -> None:
    loop = asyncio.get_running_loop()
    session = ClientSession(ClientOptions(), None, loop)
    session.closed(Unavailable("nobody there"))
    assert str(session.ready.exception()) == "nobody there"
    assert session.gone.done()
    session.drain()
    session.abort()


def test_a_client_expects_servers_unless_told_otherwise() -> None:
    assert ClientOptions().expect == SERVERS
    assert Role.CLIENT not in SERVERS


async def test_room_that_is_not_taken_goes_to_the_next_in_line() -> None:
    """Who is let in and has gone meanwhile must not take the wake-up along."""
    async with World(server_limits=Limits(inflight_max=1)) as world:
        gate = world.echo.on_echo = Gate()
        channel = world.channel()
        holder, second, third = (
            asyncio.ensure_future(channel.call(world.echo.echo, Text("", number)))
            for number in range(3)
        )
        await settle()
        session = channel._session
        assert session is not None
        assert len(session._waiting) == 2
        gate.open.set()
        while len(session._waiting) == 2:
            await asyncio.sleep(0)
        second.cancel()
        assert (await holder).count == 0
        with pytest.raises(asyncio.CancelledError):
            await second
        async with asyncio.timeout(5):
            assert (await third).count == 2


class Undecided:
    """A network that connects when it is told to."""

    def __init__(self, inner: Network) -> None:
        self._inner = inner
        self.dialled: list[Callable[[], None]] = []

    def listen(self, address: str, accept: Callable[[], StreamHandler]) -> Listener:
        return self._inner.listen(address, accept)

    def connect(self, address: str, handler: StreamHandler) -> None:
        self.dialled.append(lambda: self._inner.connect(address, handler))


async def test_a_connection_that_opens_when_nobody_wants_it_any_more_is_closed() -> None:
    async with World() as world:
        network = Undecided(world.network)
        channel = Channel(world.address, random=CountingRandom(), network=network)
        dialling = asyncio.ensure_future(channel.connect(wait=False))
        await settle()
        await channel.close(grace_s=0)
        (connect,) = network.dialled
        connect()
        with pytest.raises(Unavailable):
            await dialling
        await settle()
        assert not channel.is_open
        assert not world.server.sessions
