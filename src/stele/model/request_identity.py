"""Who sent a request: what makes it recognisable when it is sent again.

A client has a name that no other has and numbers its requests; it does not begin one before it
knows how the one before ended, or else uses another name for it. A request that was answered by
nobody is sent again with the same number and the same first row.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from stele.errors import InvalidArgument, LimitExceeded

CLIENT_BYTES_MAX = 64
SEQUENCE_MAX = (1 << 63) - 1

_SEQUENCE = struct.Struct(">q")


class RequestIdentity(NamedTuple):
    """The name of a client and the number of its request."""

    client: bytes
    sequence: int


def check_identity(identity: tuple[object, object]) -> RequestIdentity:
    """The identity itself, or a typed error that says what is wrong with it."""
    client, sequence = identity
    if not isinstance(client, bytes) or not client:
        raise InvalidArgument(f"the name of a client is bytes, at least one, not {client!r}")
    if len(client) > CLIENT_BYTES_MAX:
        raise LimitExceeded(
            f"the name of a client, {client[:32]!r}…, has {len(client)} bytes, the limit is "
            f"{CLIENT_BYTES_MAX}"
        )
    if not isinstance(sequence, int) or not 0 <= sequence <= SEQUENCE_MAX:
        raise InvalidArgument(f"the number of a request is 0 to {SEQUENCE_MAX}, not {sequence!r}")
    return RequestIdentity(client, sequence)


def encode_sequence(sequence: int) -> bytes:
    """The value of the hidden cell: eight bytes, the highest first."""
    return _SEQUENCE.pack(sequence)


def decode_sequence(value: bytes) -> int | None:
    """The reverse; ``None`` for a value that is none of ours."""
    if len(value) != _SEQUENCE.size:
        return None
    return int(_SEQUENCE.unpack(value)[0])
