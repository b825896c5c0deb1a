"""What a connection tells its shell. Values only; the shell decides how to act on them.

`Call` is more than an event: it is the server's record of one request while it runs. The
connection writes its fields and the shell hands it back with the answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stele.errors import SteleError
from stele.rpc.framing import Buffer
from stele.rpc.identity import PeerIdentity
from stele.rpc.wire_format import Origin

NO_DEADLINE = 0


class Greeted(msgspec.Struct, frozen=True, gc=False):
    """The hello of the peer was accepted; the connection is open."""

    peer: PeerIdentity


class PeerDraining(msgspec.Struct, frozen=True, gc=False):
    """The peer takes no new requests on this connection."""


class Closed(msgspec.Struct, frozen=True, gc=False):
    """Nothing more will come or go. No error means that both sides were done."""

    error: SteleError | None


class Answered(msgspec.Struct, frozen=True, gc=False):
    """A unary request succeeded. `context` is what the shell gave with the request."""

    context: Any
    body: Buffer
    attachments: tuple[memoryview, ...]


class Failed(msgspec.Struct, frozen=True, gc=False):
    """A request or stream ended with an error."""

    context: Any
    error: SteleError


class Item(msgspec.Struct, frozen=True, gc=False):
    """One message of a stream. `weight` is to be given back with `consumed`."""

    context: Any
    body: Buffer
    attachments: tuple[memoryview, ...]
    weight: int


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A stream has come to its end."""

    context: Any


class Call(msgspec.Struct, gc=False):
    """A request that has arrived at the server. Only the connection writes its fields, but for
    `context`, which belongs to the shell.
    """

    kind: int
    request_id: int
    method: int
    body: Buffer
    attachments: tuple[memoryview, ...]
    origin: Origin | None
    deadline_us: int
    weight: int
    credit: int = 0
    items_sent: int = 0
    answered: bool = False
    context: Any = None


class Abandoned(msgspec.Struct, frozen=True, gc=False):
    """Nobody waits for this call any more: cancelled by the caller, or past its deadline."""

    call: Call
    error: SteleError


class Credited(msgspec.Struct, frozen=True, gc=False):
    """The reader of a stream has made room."""

    call: Call


Event = (
    Greeted | PeerDraining | Closed | Answered | Failed | Item | Ended | Call | Abandoned | Credited
)
