"""The limits of one connection, in one place.

Each number bounds what a peer can make this process hold or wait for. Both sides of a connection
have their own; the hello tells the peer those it has to keep to.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from stele.errors import InvalidArgument

KIB = 1024
MIB = 1024 * KIB
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes, times in microseconds. The defaults suit a server on a machine network."""

    frame_bytes_max: int = 16 * MIB
    """Largest payload that is received: a full Arrow batch with room, far below a cache."""

    inflight_max: int = 1024
    """Requests of one connection that may run at once; a thousand keeps any server busy."""

    inflight_bytes_max: int = 64 * MIB
    """Bytes of those requests: four frames of the largest size."""

    outbox_bytes_soft: int = 1 * MIB
    """Above it nothing new is read or streamed until the peer has taken some."""

    outbox_bytes_max: int = 64 * MIB
    """Above it a client refuses to send, and a server cuts a peer that does not read."""

    window_bytes: int = 4 * MIB
    """Stream items on their way to one reader: the product of 40 Gbit/s and 1 ms, about."""

    streams_max: int = 256
    """Streams of one connection, each of which may hold a window."""

    hello_timeout_us: int = 5 * SECOND_US
    """A stranger has this long to say who it is."""

    keepalive_us: int = 10 * SECOND_US
    """After this long without a byte a side asks whether the other is still there."""

    silence_us: int = 30 * SECOND_US
    """After this long without a byte the connection is given up: two answers were missed."""

    frame_timeout_us: int = 60 * SECOND_US
    """A frame that has begun must be complete by then: 16 MiB at 280 KB/s."""

    deadline_us_max: int = 3600 * SECOND_US
    """A unary call may ask for no more; a stream may ask for no deadline."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise InvalidArgument(f"limit {field.name} must be above zero")
        if not self.keepalive_us < self.silence_us:
            raise InvalidArgument("limit keepalive_us must be below silence_us")
        if not self.outbox_bytes_soft < self.outbox_bytes_max:
            raise InvalidArgument("limit outbox_bytes_soft must be below outbox_bytes_max")
