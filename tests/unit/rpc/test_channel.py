"""Channels dial, back off, reconnect and never repeat a call by themselves."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest

from stele.env.ports import ByteStream
from stele.errors import (
    DeadlineExceeded,
    InvalidArgument,
    StaleHandle,
    SteleError,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from stele.rpc.backoff_policy import BackoffPolicy
from stele.rpc.channel import Channel
from stele.rpc.client_session import ClientOptions
from stele.rpc.identity import Role
from stele.rpc.network import SocketNetwork
from stele.rpc.service import Context, Reply
from tests.unit.rpc.support import CountingRandom, Text, World, memory_network, settle

QUICK = BackoffPolicy(first_us=1_000, last_us=2_000)
SLOW = BackoffPolicy(first_us=60_000_000, last_us=60_000_000)


async def test_the_first_call_dials_and_all_share_the_connection() -> None:
    async with World() as world:
        channel = world.channel()
        before = channel.is_open
        answers = await asyncio.gather(
            *[channel.call(world.echo.plain, Text("", number)) for number in range(100)]
        )
        assert [answer.count for answer in answers] == list(range(100))
        assert (before, channel.is_open) == (False, True)
        assert len(world.server.sessions) == 1


async def test_nobody_there_is_told_at_once_and_dialled_again_later() -> None:
    async with World() as world:
        channel = world.channel(address="m9:7420", backoff=SLOW)
        for _ in range(3):
            with pytest.raises(Unavailable):
                await channel.call(world.echo.plain, Text())
        assert world.random.draws == 1


async def test_who_cannot_be_reached_is_named_with_the_reason_every_time() -> None:
    async with World() as world:
        channel = world.channel(address="m9:7420", backoff=SLOW)
        for _ in range(2):
            with pytest.raises(Unreachable, match="nothing listens at m9:7420") as caught:
                await channel.call(world.echo.plain, Text())
            assert (caught.value.address, caught.value.cuts) == ("m9:7420", 0)


class Doorkeeper:
    """Takes a connection and closes it without a word."""

    def opened(self, stream: ByteStream) -> None:
        stream.abort()

    def received(self, data: bytes) -> None: ...

    def writable(self, ready: bool) -> None: ...

    def closed(self, error: SteleError | None) -> None: ...


@pytest.mark.parametrize(("address", "hint"), [("m5:1", "--tls-cert"), ("unix:/m5", "log says")])
async def test_a_server_that_closes_without_a_word_is_told_apart(address: str, hint: str) -> None:
    network = memory_network()
    network.listen(address, Doorkeeper)
    channel = Channel(address, random=CountingRandom(), network=network, backoff=QUICK)
    text, cuts = "", 0
    async with asyncio.timeout(20):
        while cuts < 3:
            with pytest.raises(Unreachable) as caught:
                await channel.connect(wait=False)
            text, cuts = str(caught.value), caught.value.cuts
            await asyncio.sleep(0.001)
    assert f"{address} closed the connection before its hello, 3 times in a row" in text
    assert hint in text
    with pytest.raises(DeadlineExceeded, match=r"in time; at last: .* before its hello"):
        await channel.connect(timeout_s=0.01)
    await channel.close()


async def test_a_connection_that_stands_ends_the_row_of_those_that_were_cut() -> None:
    async with World() as world:
        listener = world.network.listen("m5:1", Doorkeeper)
        channel = world.channel(address="m5:1", backoff=QUICK)
        with pytest.raises(Unreachable):
            await channel.connect(wait=False)
        listener.close()
        world.server.listen("m5:1")
        await channel.connect()
        await world.server.close(grace_s=0)
        world.network.listen("m5:1", Doorkeeper)
        async with asyncio.timeout(20):
            while channel.is_open:
                await asyncio.sleep(0.001)
        with pytest.raises(Unreachable) as caught:
            await channel.connect(wait=False)
        assert caught.value.cuts == 1


async def test_a_call_may_wait_for_the_server_to_come() -> None:
    async with World() as world:
        channel = world.channel(address="m2:7420", backoff=QUICK)
        call = asyncio.ensure_future(channel.call(world.echo.plain, Text("at last"), wait=True))
        async with asyncio.timeout(20):
            while world.random.draws < 2:
                await asyncio.sleep(0.001)
        assert not call.done()
        world.server.listen("m2:7420")
        assert (await call).text == "at last"


async def test_waiting_ends_at_the_deadline() -> None:
    async with World() as world:
        channel = world.channel(address="m9:7420", backoff=QUICK)
        with pytest.raises(DeadlineExceeded):
            await channel.call(world.echo.plain, Text(), timeout_s=0.02, wait=True)


async def test_a_lost_connection_fails_its_calls_and_the_next_call_dials_again() -> None:
    calls = 0

    async def hang(_context: Context, request: Text) -> Reply[Text]:
        nonlocal calls
        calls += 1
        await asyncio.Event().wait()
        return Reply(request)

    async with World() as world:
        world.echo.on_echo = hang
        channel = world.channel()
        call = asyncio.ensure_future(channel.call(world.echo.echo, Text()))
        await settle()
        (session,) = world.server.sessions
        session.abort()
        with pytest.raises(Unavailable, match="before the answer came"):
            await call
        assert (await channel.call(world.echo.plain, Text("again"))).text == "again"
        assert calls == 1


async def test_a_server_that_drains_keeps_old_calls_and_new_ones_go_elsewhere() -> None:
    release = asyncio.Event()

    async def hold(_context: Context, request: Text) -> Reply[Text]:
        await release.wait()
        return Reply(request)

    async with World() as world:
        world.echo.on_echo = hold
        channel = world.channel()
        old = asyncio.ensure_future(channel.call(world.echo.echo, Text("old")))
        await settle()
        (session,) = world.server.sessions
        session.drain()
        await settle()
        assert (await channel.call(world.echo.plain, Text("new"))).text == "new"
        assert len(world.server.sessions) == 2
        release.set()
        assert (await old).text == "old"
        await settle()
        assert len(world.server.sessions) == 1


async def test_a_one_way_message_needs_a_connection_that_stands() -> None:
    async with World() as world:
        channel = world.channel()
        with pytest.raises(Unavailable, match="yet"):
            channel.send(world.echo.note, Text("lost"))
        await settle()
        channel.send(world.echo.note, Text("sent"))
        await settle()
        assert world.echo.noted == ["sent"]


async def test_a_channel_refuses_a_server_of_another_role() -> None:
    async with World() as world:
        options = ClientOptions(expect=frozenset({Role.MASTER}))
        channel = Channel(world.address, options, random=CountingRandom(), network=world.network)
        with pytest.raises(Unauthenticated, match="is not master"):
            await channel.connect(wait=False)
        await channel.close()


async def test_clusters_do_not_mix() -> None:
    async with World(server_options={"cluster": "blue"}) as world:
        options = ClientOptions(cluster="green")
        channel = Channel(world.address, options, random=CountingRandom(), network=world.network)
        with pytest.raises(Unauthenticated, match="green"):
            await channel.connect(wait=False)
        await channel.close()


async def test_closing_lets_calls_finish_and_refuses_new_ones() -> None:
    release = asyncio.Event()

    async def hold(_context: Context, request: Text) -> Reply[Text]:
        await release.wait()
        return Reply(request)

    async with World() as world:
        world.echo.on_echo = hold
        async with world.channel() as channel:
            call = asyncio.ensure_future(channel.call(world.echo.echo, Text("last")))
            await settle()
            closing = asyncio.ensure_future(channel.close())
            await settle()
            with pytest.raises(StaleHandle):
                await channel.call(world.echo.plain, Text())
            with pytest.raises(StaleHandle):
                channel.send(world.echo.note, Text())
            release.set()
            assert (await call).text == "last"
            await closing


async def test_closing_a_channel_that_is_still_dialling_is_quick() -> None:
    channel = Channel("m9:1", random=CountingRandom(), network=memory_network())
    dialling = asyncio.ensure_future(channel.connect(wait=False))
    await asyncio.sleep(0)
    await channel.close(grace_s=1.0)
    with pytest.raises(SteleError):
        await dialling


async def test_two_channels_do_not_share_fate() -> None:
    async with World() as world:
        one, other = world.channel(), world.channel()
        await asyncio.gather(one.connect(), other.connect())
        await one.close()
        assert (await other.call(world.echo.plain, Text("fine"))).text == "fine"


async def test_a_channel_of_the_parent_process_is_refused() -> None:
    async with World() as world:
        channel = world.channel()
        await channel.call(world.echo.plain, Text())
        (session,) = world.server.sessions
        with mock.patch.object(channel._fork, "inherited", True):
            for use in (
                channel.call(world.echo.plain, Text()),
                channel.call_attached(world.echo.plain, Text()),
                channel.stream(world.echo.count, Text()),
            ):
                with pytest.raises(StaleHandle, match="fork"):
                    await use
            with pytest.raises(StaleHandle, match="fork"):
                channel.send(world.echo.note, Text())
            await channel.close()
        assert world.server.sessions == {session}
        assert (await channel.call(world.echo.plain, Text("mine"))).text == "mine"


async def test_what_is_no_address_is_refused_every_time() -> None:
    channel = Channel("nonsense", random=CountingRandom(), network=SocketNetwork())
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="nonsense"):
            await channel.connect(timeout_s=5)
    await channel.close()
