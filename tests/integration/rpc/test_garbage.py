"""Whatever a peer sends, its connection ends and nobody else notices."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from stele.rpc import wire_format as wire
from stele.rpc.framing import Frame, encode_frame, encode_parts
from stele.rpc.limits import Limits
from stele.rpc.network import SocketNetwork
from stele.rpc.service import encode_message
from stele.rpc.wire_errors import decode_error
from tests.integration.rpc.raw import RawPeer, hello_bytes
from tests.unit.rpc.support import Text, World

SEED = 20_260_101
ATTACKS = 3600
AT_ONCE = 12

# Tests of sending rubbish draw their own, seeded, so that a failure can be repeated.
Rubbish = random.Random


@pytest.fixture
async def world() -> AsyncIterator[World]:
    limits = Limits(hello_timeout_us=2_000_000)
    network = SocketNetwork()
    async with World(network=network, address="127.0.0.1:0", server_limits=limits) as world:
        yield world


class Bystander:
    """Another client that calls all the time and must not notice anything."""

    def __init__(self, world: World):
        self._world = world
        self._channel = world.channel()
        self._task = asyncio.ensure_future(self._run())
        self.calls = 0

    async def _run(self) -> None:
        while True:
            answer = await self._channel.call(self._world.echo.echo, Text("ok", self.calls))
            assert answer == Text("ok", self.calls)
            self.calls += 1
            await asyncio.sleep(0)

    async def finish(self) -> None:
        before = self.calls
        async with asyncio.timeout(20):
            while self.calls < before + 10 and not self._task.done():
                await asyncio.sleep(0.001)
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task
        assert len([s for s in self._world.server.sessions if s.peer is not None]) >= 1


def valid_frames(number: int) -> list[bytes]:
    """Good frames to damage."""
    body = encode_message(Text("x", number))
    return [
        encode_frame(wire.REQUEST, 0x0701, number, 0, 1_000_000, body),
        encode_frame(wire.ONE_WAY, 0x0703, number, 0, 0, body),
        encode_frame(wire.OPEN, 0x0702, number, 0, 0, body),
        encode_frame(wire.CREDIT, 0, number, 0, 1000),
        encode_frame(wire.CANCEL, 0, number, 0, 0),
        b"".join(encode_parts(wire.REQUEST, 0x0701, number, 0, 1_000_000, body, [b"a", b"b" * 99])),
        b"".join(
            encode_parts(
                wire.REQUEST,
                0x0701,
                number,
                0,
                9,
                body,
                (),
                wire.Origin(1, ("client",), "ada"),
            )
        ),
    ]


def damage(dice: Rubbish, frame: bytes) -> bytes:
    """The frame with something wrong, or something else altogether."""
    choice = dice.randrange(6)
    if choice == 0:
        return dice.randbytes(dice.randrange(1, 200))
    damaged = bytearray(frame)
    if choice == 1:
        del damaged[dice.randrange(len(damaged)) :]
        return bytes(damaged) + frame
    if choice == 2:
        return bytes(damaged[: wire.HEADER_BYTES]) + dice.randbytes(len(frame) - wire.HEADER_BYTES)
    if choice == 3:
        damaged[dice.randrange(4)] = dice.randrange(256)
        return bytes(damaged)
    if choice == 4:
        damaged[4] = dice.randrange(256)
        return bytes(damaged)
    for _ in range(dice.randrange(1, 6)):
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


async def test_thousands_of_malformed_frames_harm_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bystander = Bystander(world)
    dice = Rubbish(SEED)

    async def attack() -> None:
        peer = await RawPeer.connect(world.address)
        if dice.random() < 0.9:
            peer.send(hello_bytes())
        for number in range(1, dice.randrange(1, 5)):
            frame = dice.choice(valid_frames(number))
            peer.send(frame if dice.random() < 0.5 else damage(dice, frame))
            if dice.random() < 0.5:
                await asyncio.sleep(0)
        peer.send(damage(dice, dice.choice(valid_frames(9))) + b"\xff" * 64)
        # A damaged length may promise more than will come: the server is right to wait for it.
        await peer.close()

    for _ in range(ATTACKS // AT_ONCE):
        await asyncio.gather(*[attack() for _ in range(AT_ONCE)])
    await bystander.finish()
    assert not [record for record in caplog.records if record.exc_info]
    async with asyncio.timeout(20):
        while len(world.server.sessions) > 1:
            await asyncio.sleep(0.01)
    assert world.server.assembly_budget.bytes_used == 0


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"\x00" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["http", "tls", "zeros", "http2"],
)
async def test_a_stranger_gets_no_data(world: World, data: bytes) -> None:
    peer = await RawPeer.connect(world.address)
    peer.send(data)
    assert await peer.rest() == b""
    await peer.close()


async def farewell(peer: RawPeer) -> Frame:
    """The last frame of a server that gave up."""
    *_, last = await peer.frames(1000)
    assert (last.kind, last.request_id) == (wire.ERROR, wire.CONNECTION_ID)
    await peer.close()
    return last


async def test_an_oversize_frame_closes_only_that_connection(world: World) -> None:
    bystander = Bystander(world)
    peer = await RawPeer.greet(world.address)
    peer.send(wire.HEADER.pack(0xFFFFFFFF, wire.REQUEST, 0, 0x0701, 1, 0, 0))
    error = decode_error((await farewell(peer)).body)
    assert "4294967295" in str(error)
    await bystander.finish()


async def test_code_on_the_wire_is_just_bytes(world: World) -> None:
    peer = await RawPeer.greet(world.address)
    pickled = b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x8c\x06system\x93."
    peer.send(encode_frame(wire.REQUEST, 0x0701, 1, 0, 1_000_000, pickled))
    peer.send(
        encode_frame(
            wire.REQUEST, 0x0701, 2, 0, 1_000_000, msgspec.msgpack.encode({"text": pickled})
        )
    )
    frames = await peer.frames(2)
    assert [frame.kind for frame in frames] == [wire.ERROR, wire.ERROR]
    await peer.close()


async def test_a_slow_hello_is_cut_and_others_are_served(world: World) -> None:
    bystander = Bystander(world)
    peer = await RawPeer.connect(world.address)
    hello = hello_bytes()

    async def drip() -> None:
        for byte in hello[:60]:
            peer.send(bytes([byte]))
            await asyncio.sleep(0.1)

    dripping = asyncio.ensure_future(drip())
    await peer.rest()
    dripping.cancel()
    await peer.close()
    await bystander.finish()


async def test_connection_churn_leaves_nothing_behind(world: World) -> None:
    bystander = Bystander(world)
    for _ in range(5):
        peers = await asyncio.gather(*[RawPeer.connect(world.address) for _ in range(40)])
        for number, peer in enumerate(peers):
            if number % 2:
                peer.send(hello_bytes())
        await asyncio.gather(*[peer.close() for peer in peers])
    await bystander.finish()
    async with asyncio.timeout(20):
        while len(world.server.sessions) > 1:
            await asyncio.sleep(0.01)
    assert len(world.server.sessions) == 1
