"""Bytes off the wire: the frame decoder, and both ends of a connection behind it.

The first byte chooses who reads the rest and how it is cut. Whatever the bytes are, the outcome is
frames, or an error of Stele that ended the connection, which is raised to be counted; the cut must
not change it.
"""

from __future__ import annotations

import msgspec

from stele.errors import SteleError
from stele.rpc import wire_format as wire
from stele.rpc.client_connection import ClientConnection
from stele.rpc.connection import Connection, make_hello
from stele.rpc.connection_states import State
from stele.rpc.events import Call, Closed
from stele.rpc.framing import FrameDecoder, encode_frame, encode_parts
from stele.rpc.identity import Role
from stele.rpc.limits import Limits
from stele.rpc.server_connection import ServerConnection
from stele.rpc.wire_errors import encode_error

_LIMITS = Limits(frame_bytes_max=1 << 16, window_bytes=1 << 12, inflight_max=8)
_NOW_US = 1_000_000
_SECOND_US = 1_000_000

_DECODER, _SERVER, _STRANGER, _CLIENT = range(4)


def _hello(role: Role) -> bytes:
    body = msgspec.msgpack.encode(make_hello(role, _LIMITS, features=("x",)))
    return wire.PREFACE + encode_frame(wire.HELLO, 0, 0, 0, 0, body)


_TO_SERVER = _hello(Role.CLIENT)
_TO_CLIENT = _hello(Role.MASTER)

_REQUEST = encode_frame(wire.REQUEST, 0x0101, 1, 7, 5_000, b"\x81\xa1a\x01")
_OPEN = encode_frame(wire.OPEN, 0x0102, 2, 7, 0, b"\x80")
_FULL = b"".join(
    encode_parts(
        wire.REQUEST, 0x0101, 3, 7, 9, b"\x80", [b"abc", b"defgh"], wire.Origin(1, ("client",), "a")
    )
)

SEEDS: list[bytes] = [
    bytes([_DECODER]) + _REQUEST + _FULL + _OPEN,
    bytes([_DECODER | 4]) + _FULL + _FULL,
    bytes([_SERVER]) + _REQUEST + _OPEN + encode_frame(wire.CREDIT, 0, 2, 0, 100),
    bytes([_SERVER | 8]) + _REQUEST + encode_frame(wire.CANCEL, 0, 1, 0, 0),
    bytes([_SERVER]) + encode_frame(wire.ONE_WAY, 0x0103, 1, 0, 0, b"\x80"),
    bytes([_SERVER]) + encode_frame(wire.PING, 0, 0, 0, 3) + encode_frame(wire.GOAWAY, 0, 0, 0, 0),
    bytes([_STRANGER]) + _TO_SERVER + _REQUEST,
    bytes([_STRANGER | 12]) + _TO_SERVER,
    bytes([_CLIENT]) + encode_frame(wire.RESPONSE, 0, 1, 9, 0, b"\x80"),
    bytes([_CLIENT])
    + encode_frame(wire.ITEM, 0, 2, 0, 0, b"\x80")
    + encode_frame(wire.END, 0, 2, 0, 1),
    bytes([_CLIENT]) + encode_frame(wire.ERROR, 0, 1, 0, 0, encode_error(SteleError("no"))),
    bytes([_CLIENT]) + encode_frame(wire.GOAWAY, 0, 0, 0, 0) + encode_frame(wire.PING, 0, 0, 0, 1),
]


def _pieces(data: bytes, cut: int) -> list[bytes]:
    """The data in pieces of a few bytes, or whole."""
    size = (0, 1, 7, 33)[cut]
    return [data] if size == 0 else [data[i : i + size] for i in range(0, len(data), size)]


def _decode(data: bytes, cut: int) -> tuple[list[tuple[object, ...]], SteleError | None]:
    decoder = FrameDecoder(_LIMITS.frame_bytes_max, preface=False)
    frames: list[tuple[object, ...]] = []
    for piece in _pieces(data, cut):
        for frame in decoder.feed(piece):
            parts = tuple(map(bytes, frame.attachments))
            frames.append((frame.kind, frame.request_id, bytes(frame.body), parts, frame.origin))
    return frames, decoder.error


def _connection(choice: int) -> Connection:
    if choice == _CLIENT:
        client = ClientConnection(make_hello(Role.CLIENT, _LIMITS), _LIMITS, _NOW_US)
        client.receive_data(_TO_CLIENT, _NOW_US)
        for is_stream in (False, True, False):
            client.request(
                0x0101,
                b"\x80",
                deadline_us=_NOW_US + _SECOND_US,
                now_us=_NOW_US,
                context=None,
                is_stream=is_stream,
            )
        return client
    server = ServerConnection(make_hello(Role.MASTER, _LIMITS), _LIMITS, _NOW_US)
    if choice == _SERVER:
        server.receive_data(_TO_SERVER, _NOW_US)
    return server


def _drive(connection: Connection, data: bytes, cut: int) -> None:
    ends: list[SteleError | None] = []
    for at, piece in enumerate(_pieces(data, cut)):
        connection.receive_data(piece, _NOW_US + at)
        for event in connection.take_events():
            if isinstance(event, Call) and isinstance(connection, ServerConnection):
                connection.respond(event, b"\x80")
            elif isinstance(event, Closed):
                ends.append(event.error)
    connection.on_time(_NOW_US + 2 * _SECOND_US)
    ends += [event.error for event in connection.take_events() if isinstance(event, Closed)]
    assert len(ends) == (connection.state is State.CLOSED), "a connection ends once, and says so"
    output = b"".join(connection.take_output())
    reader = FrameDecoder(1 << 20, preface=output.startswith(wire.PREFACE))
    reader.feed(output)
    assert reader.error is None, "what we send can be read"
    assert reader.buffered_bytes == 0, "what we send is whole"
    _raise_first(ends)


def _raise_first(errors: list[SteleError | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


def TestOneInput(data: bytes) -> None:
    """Read bytes as a frame decoder, a server, a server before the hello, or a client."""
    if not data:
        return
    choice, cut = data[0] & 3, data[0] >> 2 & 3
    if choice == _DECODER:
        frames, error = _decode(data[1:], cut)
        whole, same_error = _decode(data[1:], 0)
        assert frames == whole, "the cut changed the frames"
        assert repr(error) == repr(same_error), "the cut changed the error"
        _raise_first([error])
    else:
        _drive(_connection(choice), data[1:], cut)
