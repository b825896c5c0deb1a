"""The values of the log: entries, the hard state, snapshots, and what a node starts from.

All of them are frozen. They travel in messages and are written by the host, so they encode to
short msgpack arrays; the order of fields is therefore part of the format.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from stele.errors import Corruption
from stele.raft.membership import Membership

NOBODY: Final = 0
"""Stands where a node id could: no vote given, no leader known. Real ids are positive."""

ENTRY_OVERHEAD_BYTES: Final = 32
"""What an entry is taken to cost beyond its payload, in memory and on the wire."""


class EntryKind(enum.IntEnum):
    """What the state machine should do with an entry."""

    DATA = 0
    """A proposal of the host; opaque here."""

    NOOP = 1
    """A new leader's first entry. Once it is committed, so is everything before it (§3.6.2)."""

    MEMBERSHIP = 2
    """The complete membership that holds from this entry on."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One slot of the replicated log. Index and term together name it for ever."""

    term: int
    index: int
    kind: EntryKind
    data: bytes


class HardState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What must survive a crash besides the log (§3.8).

    ``term`` and ``vote`` have to be durable before any answer that rests on them. ``commit`` is a
    convenience: a lower bound from which a restarted node may apply at once.
    """

    term: int = 0
    vote: int = NOBODY
    commit: int = 0


class Snapshot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a state image stands for: the log up to ``index``, and the membership at that point.

    The image itself belongs to the host. At index 0 it describes the empty state.
    """

    index: int = 0
    term: int = 0
    membership: Membership = Membership()


class StoredState(msgspec.Struct, frozen=True):
    """What the host read back from its storage, or made for a first start."""

    hard_state: HardState = HardState()
    snapshot: Snapshot = Snapshot()
    """Where the kept log begins."""

    entries: tuple[Entry, ...] = ()
    applied: int = 0
    """The state machine already holds the effects up to here; never handed out again."""


def size_of(entry: Entry) -> int:
    """What an entry counts against the limits of the configuration."""
    return len(entry.data) + ENTRY_OVERHEAD_BYTES


def size_of_all(entries: Sequence[Entry]) -> int:
    """The sum of their sizes."""
    if len(entries) == 1:
        return len(entries[0].data) + ENTRY_OVERHEAD_BYTES
    return sum([len(entry.data) for entry in entries]) + ENTRY_OVERHEAD_BYTES * len(entries)


def bootstrap(membership: Membership) -> StoredState:
    """The first state of every founding member.

    The membership is an ordinary entry, the first of the log, and taken as committed: all founders
    are given the same one, and a later member receives it like any other entry. So there is one
    source of the membership, the log, from the first moment on.
    """
    first = Entry(1, 1, EntryKind.MEMBERSHIP, membership.encode())
    return StoredState(HardState(term=1, vote=NOBODY, commit=1), Snapshot(), (first,), 0)


def check_stored(stored: StoredState) -> None:
    """Refuse to start from a state that no history of a correct host can have written."""
    index, term = stored.snapshot.index, stored.snapshot.term
    for entry in stored.entries:
        if entry.index != index + 1:
            raise Corruption(f"raft log has entry {entry.index} where {index + 1} belongs")
        if entry.term < term:
            raise Corruption(f"raft log goes back from term {term} at entry {entry.index}")
        index, term = entry.index, entry.term
    if stored.hard_state.term < term:
        raise Corruption(f"raft log reaches term {term}, hard state {stored.hard_state.term}")
    if stored.applied < stored.snapshot.index:
        raise Corruption(
            f"raft log begins after {stored.snapshot.index}, the state is at {stored.applied}: "
            "the entries between them are gone"
        )
    for name, claimed in (("commit", stored.hard_state.commit), ("applied", stored.applied)):
        if claimed > index:
            raise Corruption(f"raft {name} index {claimed} lies beyond the log's end {index}")
