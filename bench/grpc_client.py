"""A lean gRPC client for the benchmarks, so that etcd is not measured through a slow one.

HTTP/2 with prior knowledge over one connection, bodies as bytes, writes coalesced for each turn of
the loop: a call costs about as much as one of our own. Only what gRPC needs of HTTP/2 is here. The
peer is told to keep no header table, and the headers of its answers are not looked at: an answer
without a body is an error.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Final, cast

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
CANCELLED: Final = 8
FRAME_HEADER_BYTES: Final = 9
MESSAGE_HEADER_BYTES: Final = 5
WINDOW_BYTES_FIRST: Final = 65_535
WINDOW_BYTES: Final = (1 << 31) - 1
WINDOW_REFILL_BYTES: Final = 1 << 24


class CallFailed(Exception):
    """The server refused, or the connection broke."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One HTTP/2 frame."""
    size = len(payload)
    return struct.pack(">BHBBI", size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def message(body: bytes) -> bytes:
    """A body as gRPC sends it, uncompressed."""
    return struct.pack(">BI", 0, len(body)) + body


def request_headers(path: str, authority: str) -> bytes:
    """The header block of a call, by HPACK's static table and literals that nobody remembers."""

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    return (
        b"\x83\x86"  # :method POST, :scheme http
        b"\x04"
        + text(path)
        + b"\x01"
        + text(authority)
        + b"\x0f\x10"
        + text("application/grpc")
        + b"\x00"
        + text("te")  # codespell:ignore te
        + text("trailers")
    )


class Messages:
    """The messages of one stream, as they come."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buffer = b""
        self._ready: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._error: CallFailed | None = None

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= MESSAGE_HEADER_BYTES:
            end = MESSAGE_HEADER_BYTES + int.from_bytes(self._buffer[1:5], "big")
            if len(self._buffer) < end:
                return
            self._ready.append(self._buffer[MESSAGE_HEADER_BYTES:end])
            self._buffer = self._buffer[end:]
            self._wake()

    def end(self, reason: str) -> None:
        self._error = CallFailed(reason)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> bytes:
        """The next message; ``CallFailed`` when there will be none."""
        while not self._ready:
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._ready.popleft()


class GrpcConnection(asyncio.Protocol):
    """One connection. Belongs to the loop it was made in."""

    def __init__(self, authority: str) -> None:
        self._authority = authority
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Messages] = {}
        self._headers: dict[str, bytes] = {}
        self._next_stream = 1
        self._out: list[bytes] = []
        self._blocked: deque[bytes] = deque()
        self._window = WINDOW_BYTES_FIRST
        self._taken = 0
        self._buffer = b""

    async def call(self, path: str, body: bytes) -> bytes:
        """A unary call."""
        stream, messages = self._begin(path)
        self._send_data(frame(DATA, END_STREAM, stream, message(body)))
        return await messages.next()

    def stream(self, path: str, body: bytes) -> tuple[Messages, int]:
        """A stream of answers; its number, under which more can be sent."""
        stream, messages = self._begin(path)
        self.send(stream, body)
        return messages, stream

    def send(self, stream: int, body: bytes) -> None:
        """One more message to a stream."""
        self._send_data(frame(DATA, 0, stream, message(body)))

    def cancel(self, stream: int) -> None:
        """End a stream."""
        if self._streams.pop(stream, None) is not None:
            self._write(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCELLED)))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _begin(self, path: str) -> tuple[int, Messages]:
        if self._transport is None or self._transport.is_closing():
            raise CallFailed(f"{self._authority} is not connected")
        block = self._headers.get(path)
        if block is None:
            block = self._headers[path] = request_headers(path, self._authority)
        stream = self._next_stream
        self._next_stream += 2
        messages = self._streams[stream] = Messages(self._loop)
        self._write(frame(HEADERS, END_HEADERS, stream, block))
        return stream, messages

    def _send_data(self, data: bytes) -> None:
        self._blocked.append(data)
        self._send_what_fits()

    def _send_what_fits(self) -> None:
        while self._blocked:
            size = len(self._blocked[0]) - FRAME_HEADER_BYTES
            if size > self._window:
                return
            self._window -= size
            self._write(self._blocked.popleft())

    def _write(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._out))
        self._out.clear()

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = struct.pack(">HIHIHI", 1, 0, 2, 0, 4, WINDOW_BYTES)
        self._write(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._write(
            frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW_BYTES - WINDOW_BYTES_FIRST))
        )

    def connection_lost(self, exc: Exception | None) -> None:
        for messages in self._streams.values():
            messages.end(f"{self._authority} hung up: {exc}")
        self._streams.clear()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data
        start = 0
        while len(buffer) - start >= FRAME_HEADER_BYTES:
            high, low, kind, flags, stream = struct.unpack_from(">BHBBI", buffer, start)
            end = start + FRAME_HEADER_BYTES + (high << 16 | low)
            if len(buffer) < end:
                break
            self._take(kind, flags, stream, buffer[start + FRAME_HEADER_BYTES : end])
            start = end
        self._buffer = buffer[start:]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self._take_data(flags, stream, payload)
        elif kind == PING and not flags & ACK:
            self._write(frame(PING, ACK, 0, payload))
        elif kind == SETTINGS and not flags & ACK:
            self._write(frame(SETTINGS, ACK, 0))
        elif kind == WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload, "big")
            self._send_what_fits()
        ends = kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)
        if ends and stream in self._streams:
            self._streams.pop(stream).end(f"{self._authority} ended the call")

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        assert not flags & PADDED, "gRPC servers do not pad"
        self._taken += len(payload)
        if self._taken >= WINDOW_REFILL_BYTES:
            self._write(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", self._taken)))
            self._taken = 0
        if stream in self._streams:
            self._streams[stream].feed(payload)


async def connect(address: str) -> GrpcConnection:
    """A connection to a server of this machine."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: GrpcConnection(address), host, int(port))
    return connection
