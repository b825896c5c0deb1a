"""The constants and fixed structures of the wire, shared by encoder and decoder.

A connection is a *preface* followed by *frames* in each direction. A frame is a header of 32
bytes and a payload; the whole grammar with its odd cases is `docs/formats/rpc.md`.

The header is fixed because a variable one costs a branch for every field on every message, and
because the receiver must know the length before it allocates anything. Every frame has room for
the sender's hybrid clock, so that knowledge of time spreads with every message.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final

import msgspec

PREFACE: Final = b"\x93STELE\r\n"
"""First bytes of each direction: not text, not TLS, not HTTP, and damaged by newline mangling."""

PROTOCOL_VERSION_MIN: Final = 1
PROTOCOL_VERSION_MAX: Final = 1

HEADER: Final = struct.Struct("<IBBHqqq")
"""payload length, kind, flags, method, request id, clock, argument."""

HEADER_BYTES: Final = HEADER.size

# Kinds are plain integers: they are looked up for every frame, and hashing an enum member runs
# Python code. KIND_NAMES is for people.
HELLO: Final = 1
REQUEST: Final = 2
OPEN: Final = 3
ONE_WAY: Final = 4
RESPONSE: Final = 5
ERROR: Final = 6
ITEM: Final = 7
END: Final = 8
CANCEL: Final = 9
CREDIT: Final = 10
PING: Final = 11
PONG: Final = 12
GOAWAY: Final = 13

KIND_NAMES: Final = {
    HELLO: "hello",
    REQUEST: "request",
    OPEN: "open",
    ONE_WAY: "one-way",
    RESPONSE: "response",
    ERROR: "error",
    ITEM: "item",
    END: "end",
    CANCEL: "cancel",
    CREDIT: "credit",
    PING: "ping",
    PONG: "pong",
    GOAWAY: "goaway",
}

KIND_MAX: Final = GOAWAY

FLAG_ATTACHED: Final = 1
"""The payload opens with an attachment table and ends with raw attachments."""

FLAG_FORWARDED: Final = 2
"""The payload opens with the origin: who the sender asks for."""

FLAGS_KNOWN: Final = FLAG_ATTACHED | FLAG_FORWARDED

CONNECTION_ID: Final = 0
"""The request id of frames that speak of the connection as a whole."""

ATTACHMENT_COUNT: Final = struct.Struct("<I")
ORIGIN_LENGTH: Final = struct.Struct("<I")

ATTACHMENTS_PER_FRAME_MAX: Final = 1024
"""A scan batch has one attachment; a bulk message has one for each column group."""

ORIGIN_BYTES_MAX: Final = 1024

ATTACHMENT_ALIGNMENT_BYTES: Final = 8
"""Arrow reads its buffers in place; an unaligned int64 column is another type to a kernel."""

HELLO_BYTES_MAX: Final = 4096
"""Before the hello a peer is a stranger: it may make us hold this much and no more."""


_Size = Annotated[int, msgspec.Meta(ge=1, le=(1 << 40))]
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Names = Annotated[tuple[_Name, ...], msgspec.Meta(max_length=64)]


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What each side says first. Fields that a reader does not know are ignored."""

    version_min: int = PROTOCOL_VERSION_MIN
    version_max: int = PROTOCOL_VERSION_MAX
    role: _Name
    name: _Name = ""
    cluster: _Name = ""
    features: _Names = ()
    required: _Names = ()
    frame_bytes_max: _Size
    inflight_max: _Size
    streams_max: _Size
    window_bytes: _Size


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """The caller for whom a trusted peer forwards a request."""

    client_id: int
    roles: tuple[str, ...]
    name: str


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error on the wire: its class and the classes above it, nearest first."""

    names: tuple[str, ...]
    message: str
    fields: dict[str, str | int | None] = {}


def method_name(number: int) -> str:
    """How an undeclared method number is shown to people: service, dot, method."""
    return f"{number >> 8}.{number & 0xFF}"
