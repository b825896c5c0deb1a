"""A peer that speaks bytes instead of the protocol: strangers, liars and the very slow."""

from __future__ import annotations

import asyncio

import msgspec

from stele.rpc import wire_format as wire
from stele.rpc.connection import make_hello
from stele.rpc.framing import Frame, FrameDecoder, encode_frame
from stele.rpc.identity import Role
from stele.rpc.limits import Limits

PATIENCE_S = 20.0
LARGE_BYTES = 64 << 20


def hello_bytes(role: Role = Role.CLIENT, limits: Limits | None = None) -> bytes:
    """Preface and hello of a well-behaved client."""
    body = msgspec.msgpack.encode(make_hello(role, limits or Limits()))
    return wire.PREFACE + encode_frame(wire.HELLO, 0, 0, 0, 0, body)


class RawPeer:
    """A plain socket to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(LARGE_BYTES)

    @classmethod
    async def connect(cls, address: str) -> RawPeer:
        """Dial `host:port` or `unix:path`."""
        if address.startswith("unix:"):
            return cls(*await asyncio.open_unix_connection(address.removeprefix("unix:")))
        host, port = address.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port)))

    @classmethod
    async def greet(cls, address: str, limits: Limits | None = None) -> RawPeer:
        """Dial and say hello like everyone else."""
        peer = await cls.connect(address)
        peer.send(hello_bytes(limits=limits))
        (hello,) = await peer.frames(1)
        assert hello.kind == wire.HELLO
        return peer

    def send(self, data: bytes) -> None:
        """Write and do not wait; what comes after the server hung up is lost."""
        if not self._writer.is_closing():
            self._writer.write(data)

    async def frames(self, count: int) -> list[Frame]:
        """The next frames of the server; fewer only if it closes."""
        found: list[Frame] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                data = await self._reader.read(65536)
                if not data:
                    break
                found += self._decoder.feed(data)
                assert self._decoder.error is None
        return found

    async def rest(self) -> bytes:
        """Everything until the server closes; it must."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._reader.read()
        except ConnectionError:
            return b""

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return
