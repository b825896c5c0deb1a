"""Slow readers, silent peers and floods: memory stays bounded and time runs out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from stele.errors import Unavailable
from stele.rpc import wire_format as wire
from stele.rpc.framing import encode_frame
from stele.rpc.limits import Limits
from stele.rpc.network import WRITE_BUFFER_BYTES, SocketNetwork
from stele.rpc.service import Context, Reply, encode_message
from stele.rpc.wire_errors import decode_error
from tests.integration.rpc.raw import RawPeer
from tests.unit.rpc.support import Text, World

ITEM_BYTES = 64 * 1024
SOCKET_BYTES = 8 << 20
"""More than a loopback connection buffers in the kernel."""

PATIENT_US = 1_000_000
"""Longer than a busy machine leaves a test without a processor."""


def socket_world(**options: object) -> World:
    return World(network=SocketNetwork(), address="127.0.0.1:0", **options)  # type: ignore[arg-type]


class Firehose:
    """A stream that produces as fast as it may, and counts."""

    def __init__(self) -> None:
        self.produced = 0
        self.stopped = asyncio.Event()

    async def __call__(self, _context: Context, _request: Text) -> AsyncIterator[Reply[Text]]:
        item = Reply(Text(), [bytes(ITEM_BYTES)])
        try:
            while True:
                self.produced += 1
                yield item
        finally:
            self.stopped.set()


async def steady(hose: Firehose) -> int:
    """How much was produced once it stands still."""
    produced = -1
    async with asyncio.timeout(20):
        while produced != hose.produced:
            produced = hose.produced
            await asyncio.sleep(0.2)
    return produced


async def test_a_reader_that_stops_reading_items_stops_the_producer() -> None:
    window = 16 * ITEM_BYTES
    async with socket_world(client_limits=Limits(window_bytes=window)) as world:
        hose = world.echo.on_count = Firehose()
        stream = await world.channel().stream(world.echo.count, Text())
        produced = await steady(hose)
        assert produced <= window // ITEM_BYTES + 2
        for _ in range(100):
            await anext(stream)
        assert await steady(hose) <= 100 + window // ITEM_BYTES + 2
        await stream.aclose()
        async with asyncio.timeout(20):
            await hose.stopped.wait()


async def test_a_huge_scan_never_read_holds_a_bounded_outbox() -> None:
    limits = Limits(outbox_bytes_soft=1 << 20, outbox_bytes_max=8 << 20)
    async with socket_world(server_limits=limits) as world:
        hose = world.echo.on_count = Firehose()
        peer = await RawPeer.greet(world.address, Limits(window_bytes=1 << 40))
        peer.send(encode_frame(wire.OPEN, 0x0702, 1, 0, 0, encode_message(Text())))
        produced = await steady(hose)
        bound = limits.outbox_bytes_soft + WRITE_BUFFER_BYTES + SOCKET_BYTES
        assert produced * ITEM_BYTES < bound + 4 * ITEM_BYTES
        await peer.close()
        async with asyncio.timeout(20):
            await hose.stopped.wait()


async def test_a_peer_that_asks_and_never_reads_is_stopped() -> None:
    limits = Limits(outbox_bytes_soft=1 << 20, outbox_bytes_max=64 << 20)
    async with socket_world(server_limits=limits) as world:
        served = 0

        async def serve(_context: Context, request: Text) -> Reply[Text]:
            nonlocal served
            served += 1
            return Reply(request, [bytes(ITEM_BYTES // 2)])

        world.echo.on_echo = serve
        peer = await RawPeer.greet(world.address)
        body = encode_message(Text())
        for number in range(1, 2000):
            peer.send(encode_frame(wire.REQUEST, 0x0701, number, 0, 60_000_000, body))
        (session,) = world.server.sessions
        async with asyncio.timeout(20):
            while not session.reading_paused:
                await asyncio.sleep(0.01)
        assert (await world.channel().call(world.echo.plain, Text("ok"))).text == "ok"
        assert served < 2000
        await peer.close()


async def test_large_answers_wait_for_a_reader_instead_of_cutting_it() -> None:
    limits = Limits(outbox_bytes_soft=1 << 20, outbox_bytes_max=12 << 20)
    async with socket_world(server_limits=limits) as world:

        async def serve(_context: Context, request: Text) -> Reply[Text]:
            return Reply(request, [bytes(8 << 20)])

        world.echo.on_echo = serve
        channel = world.channel()
        replies = await asyncio.gather(
            *[channel.call_attached(world.echo.echo, Text("", n)) for n in range(12)]
        )
        assert [reply.message.count for reply in replies] == list(range(12))
        assert len(world.server.sessions) == 1


async def test_a_peer_that_falls_silent_is_given_up() -> None:
    limits = Limits(keepalive_us=50_000, silence_us=PATIENT_US)
    async with socket_world(server_limits=limits) as world:
        peer = await RawPeer.greet(world.address)
        frames = await peer.frames(100)
        assert [frame.kind for frame in frames] == [wire.PING, wire.ERROR]
        assert "silent" in str(decode_error(frames[-1].body))
        await peer.close()


async def test_a_server_that_falls_silent_fails_its_calls() -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    deaf = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = deaf.sockets[0].getsockname()[1]
    async with socket_world(client_limits=Limits(hello_timeout_us=100_000)) as world:
        channel = world.channel(address=f"127.0.0.1:{port}")
        with pytest.raises(Unavailable, match="no hello"):
            await channel.connect(wait=False)
    deaf.close()


async def test_pings_keep_an_idle_connection() -> None:
    limits = Limits(keepalive_us=30_000, silence_us=PATIENT_US)
    async with socket_world(server_limits=limits, client_limits=limits) as world:
        channel = world.channel()
        await channel.call(world.echo.plain, Text())
        (session,) = world.server.sessions
        await asyncio.sleep(1.5 * PATIENT_US / 1e6)
        assert channel.is_open
        assert world.server.sessions == {session}


async def test_many_idle_connections_do_not_slow_a_busy_one() -> None:
    async with socket_world() as world:
        idle = [await RawPeer.greet(world.address) for _ in range(200)]
        channel = world.channel()
        answers = await asyncio.gather(
            *[channel.call(world.echo.plain, Text("", n)) for n in range(500)]
        )
        assert [answer.count for answer in answers] == list(range(500))
        assert len(world.server.sessions) == 201
        await asyncio.gather(*[peer.close() for peer in idle])
