"""One suite over TCP, Unix sockets and TLS: whatever carries the bytes, calls behave the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stele.errors import Conflict, DeadlineExceeded, LimitExceeded, NotLeader, Unavailable
from stele.rpc.backoff_policy import BackoffPolicy
from stele.rpc.identity import Proof, Role
from stele.rpc.network import SocketNetwork
from stele.rpc.service import Context, Reply
from tests.unit.rpc.certificates import Authority
from tests.unit.rpc.support import Text, World

QUICK = BackoffPolicy(first_us=10_000, last_us=50_000)


@pytest.fixture(params=["tcp", "unix", "tls"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    address = f"unix:{tmp_path}/s" if request.param == "unix" else "127.0.0.1:0"
    if request.param != "tls":
        async with World(network=SocketNetwork(), address=address) as world:
            yield world
        return
    authority = Authority(tmp_path)
    server = authority.credentials("m1", Role.METASTORE, Role.MASTER)
    async with World(network=SocketNetwork(server), address=address, credentials=server) as world:
        world.network = SocketNetwork(authority.credentials("ada", Role.CLIENT))
        yield world


async def test_thousands_of_calls_at_once(world: World) -> None:
    channel = world.channel()
    answers = await asyncio.gather(
        *[channel.call(world.echo.echo, Text("x" * (n % 500), n)) for n in range(3000)]
    )
    assert [answer.count for answer in answers] == list(range(3000))


async def test_large_messages_and_attachments(world: World) -> None:
    channel = world.channel()
    big = bytes(range(256)) * 3000
    reply = await channel.call_attached(world.echo.echo, Text("big"), [big[:-5], b"", b"x"])
    assert [bytes(part) for part in reply.attachments] == [big[:-5], b"", b"x"]
    with pytest.raises(LimitExceeded):
        await channel.call_attached(world.echo.echo, Text(), [bytes(2 << 20)])
    with pytest.raises(LimitExceeded):
        await channel.call_attached(world.echo.echo, Text(), [bytes(17 << 20)])
    assert (await channel.call(world.echo.plain, Text("fine"))).text == "fine"


async def test_streams_side_by_side(world: World) -> None:
    channel = world.channel()

    async def read(size: int) -> int:
        stream = await channel.stream(world.echo.count, Text("y" * 100, size))
        return sum([1 async for _ in stream])

    sizes = [0, 1, 10, 1000, 5000]
    assert await asyncio.gather(*map(read, sizes)) == sizes


async def test_bulk_items_keep_their_bytes(world: World) -> None:
    payload = bytes(range(256)) * 4096

    async def count(_context: Context, request: Text) -> AsyncIterator[Reply[Text]]:
        for number in range(request.count):
            yield Reply(Text("", number), [payload, b"tail"])

    world.echo.on_count = count
    stream = await world.channel().stream(world.echo.count, Text("", 24))
    for number in range(24):
        reply = await stream.next_reply()
        assert reply.message.count == number
        assert [bytes(part) for part in reply.attachments] == [payload, b"tail"]
    assert await stream.next_replies() == []


async def test_the_peer_is_known(world: World) -> None:
    await world.channel().call(world.echo.echo, Text())
    (context,) = world.echo.contexts
    assert context.peer.roles == {Role.CLIENT}
    expected = {"unix": Proof.KERNEL}.get(world.address.split(":")[0])
    if expected is not None:
        assert context.peer.proof is expected
    elif context.peer.name == "ada":
        assert (context.peer.proof, context.peer.cluster) == (Proof.CERTIFICATE, "c1")
    else:
        assert context.peer.proof is Proof.CLAIM


async def test_errors_and_hints(world: World) -> None:
    async def fail(_context: Context, request: Text) -> None:
        raise NotLeader(leader="m2:7420") if request.text == "lead" else Conflict(request.text)

    world.echo.on_echo = fail
    channel = world.channel()
    with pytest.raises(NotLeader) as caught:
        await channel.call(world.echo.echo, Text("lead"))
    assert caught.value.leader == "m2:7420"
    with pytest.raises(Conflict, match="mine"):
        await channel.call(world.echo.echo, Text("mine"))


async def test_deadlines_and_cancels_reach_the_handler(world: World) -> None:
    started, stopped = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def hang(_context: Context, _request: Text) -> None:
        started.release()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.release()

    world.echo.on_echo = hang
    channel = world.channel()
    # On a busy machine a short deadline may pass before the handler begins.
    for timeout_s in (0.05, 0.5, 5.0):
        with pytest.raises(DeadlineExceeded):
            await channel.call(world.echo.echo, Text(), timeout_s=timeout_s)
        if not started.locked():
            break
    async with asyncio.timeout(20):
        await started.acquire()
        await stopped.acquire()
        call = asyncio.ensure_future(channel.call(world.echo.echo, Text()))
        await started.acquire()
        call.cancel()
        await stopped.acquire()
    assert (await channel.call(world.echo.plain, Text("on"))).text == "on"


async def test_a_server_that_goes_and_comes_back_is_found_again(world: World) -> None:
    channel = world.channel(backoff=QUICK)
    await channel.call(world.echo.plain, Text())
    (session,) = world.server.sessions
    session.abort()
    async with asyncio.timeout(20):
        while channel.is_open:
            await asyncio.sleep(0.001)
    assert (await channel.call(world.echo.plain, Text("back"), wait=True)).text == "back"


async def test_a_closed_server_is_unavailable(world: World) -> None:
    channel = world.channel(backoff=QUICK)
    await channel.call(world.echo.plain, Text())
    await world.server.close()
    with pytest.raises(Unavailable):
        await channel.call(world.echo.plain, Text())
