"""The values of the metastore that clients, servers and the log all speak of.

They encode to short msgpack arrays, so the order of fields is part of the format; a new field goes
to the end, with a default. An *index* is a position of the replicated log: the number of a change,
and the name of the state after it.
"""

from __future__ import annotations

import enum

import msgspec


class KeyValue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One key as it was at some index."""

    key: str
    value: bytes
    index: int
    """The change that wrote this value."""
    created: int
    """The change that made the key, after it was last deleted."""
    version: int
    """How often it was written since then, from 1."""
    session: int = 0
    """The session with whose end the key goes away; 0 for a key that stays."""


class CompareField(enum.IntEnum):
    """What of a key is compared. A key that is missing has the value b"" and zeros."""

    VALUE = 1
    VERSION = 2
    CREATED = 3
    INDEX = 4
    SESSION = 5
    TOKEN = 6
    """The highest token among the holders of the key's lock: makes a write depend on a lock."""


class Relation(enum.IntEnum):
    """How it is compared: the key's field on the left, the given operand on the right."""

    EQUAL = 1
    NOT_EQUAL = 2
    LESS = 3
    GREATER = 4


class Compare(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One condition of a compare-and-swap. That a key is missing is ``VERSION == 0``."""

    key: str
    field: CompareField
    relation: Relation
    operand: bytes | int


class Put(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """Write a value."""

    key: str
    value: bytes
    session: int = 0
    """Not 0: the key goes away when this session ends."""


class Delete(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """Remove a key, or with ``end`` all keys of a range."""

    key: str
    end: str | None = None


class Get(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """Read one key inside a compare-and-swap."""

    key: str


Operation = Put | Delete | Get


class KeyRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Keys from ``start`` on and before ``end``; without an end, that one key."""

    start: str
    end: str | None = None


class Identity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which request this is: sent again under the same identity it takes effect once."""

    client: int
    sequence: int
    answered: int = 0
    """The client has the answers to all its requests up to here: they can be forgotten."""
    born: int = 0
    """An index from before the client's first request: tells a new client from a forgotten one."""


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a transaction did to one key: its new value, or None when it went away."""

    key: str
    value: bytes | None
    created: int = 0
    version: int = 0
    session: int = 0


class Changes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One whole transaction, as a watcher sees it: filtered to what it watches."""

    index: int
    changes: tuple[Change, ...]
