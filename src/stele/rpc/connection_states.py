"""The life of a connection as data: its states, what moves it, and which frames it takes.

greeting ──greeted──▶ open ──drain──▶ draining ──emptied──▶ closed
    └───────────────────┴──────failed────┴─────────────────────▲
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stele.rpc import wire_format as wire


class State(enum.Enum):
    """Where a connection is in its life."""

    GREETING = "greeting"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


class Turn(enum.Enum):
    """What can move a connection from one state to the next."""

    GREETED = "greeted"
    DRAIN = "drain"
    EMPTIED = "emptied"
    FAILED = "failed"


TRANSITIONS: Final[Mapping[tuple[State, Turn], State]] = MappingProxyType(
    {
        (State.GREETING, Turn.GREETED): State.OPEN,
        (State.GREETING, Turn.DRAIN): State.CLOSED,
        (State.GREETING, Turn.FAILED): State.CLOSED,
        (State.OPEN, Turn.DRAIN): State.DRAINING,
        (State.OPEN, Turn.FAILED): State.CLOSED,
        (State.DRAINING, Turn.DRAIN): State.DRAINING,
        (State.DRAINING, Turn.EMPTIED): State.CLOSED,
        (State.DRAINING, Turn.FAILED): State.CLOSED,
    }
)

_BOTH: Final = frozenset({wire.PING, wire.PONG, wire.GOAWAY, wire.ERROR})
_TO_CLIENT: Final = _BOTH | {wire.RESPONSE, wire.ITEM, wire.END}
_TO_SERVER: Final = _BOTH | {wire.REQUEST, wire.OPEN, wire.ONE_WAY, wire.CANCEL, wire.CREDIT}


class Side(enum.Enum):
    """Which end of a connection this is."""

    CLIENT = "client"
    SERVER = "server"


ACCEPTED: Final[Mapping[tuple[Side, State], frozenset[int]]] = MappingProxyType(
    {
        (Side.CLIENT, State.GREETING): frozenset({wire.HELLO, wire.ERROR}),
        (Side.CLIENT, State.OPEN): _TO_CLIENT,
        (Side.CLIENT, State.DRAINING): _TO_CLIENT,
        (Side.CLIENT, State.CLOSED): frozenset(),
        (Side.SERVER, State.GREETING): frozenset({wire.HELLO}),
        (Side.SERVER, State.OPEN): _TO_SERVER,
        (Side.SERVER, State.DRAINING): _TO_SERVER,
        (Side.SERVER, State.CLOSED): frozenset(),
    }
)
"""Which kinds of frames each side takes in each state; any other fails the connection."""
