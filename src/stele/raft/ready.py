"""What a node wants done: the Ready, with the order of durability in its shape.

The host takes a Ready and

1. sends ``messages`` at once, in parallel with 2;
2. writes ``snapshot`` (install the staged image), then ``entries`` (replacing whatever stood at
   their indices and beyond), then ``hard_state``: as one atomic write, behind the writes of
   earlier Readys, and synced when ``needs_sync`` says so;
3. when that write is durable, sends ``messages_after_sync`` and calls ``persisted(number)``;
4. applies ``committed`` in order and calls ``applied(index)``;
5. serves each of ``read_states`` once its state machine has applied ``index``.

Readys may be taken while earlier ones are still being written: that is how proposals pile up behind
one sync and go out together. A write that fails leaves the disk in an unknown state; the host must
stop, never report it, and never try again.
"""

from __future__ import annotations

import msgspec

from stele.raft.entries import Entry, HardState, Snapshot
from stele.raft.messages import Message


class ReadState(msgspec.Struct, frozen=True, gc=False):
    """The read asked for as ``context`` may be served from a state at or above ``index``."""

    context: int
    index: int


class Ready(msgspec.Struct, frozen=True, gc=False):
    """One batch of instructions."""

    number: int
    hard_state: HardState | None
    snapshot: Snapshot | None
    entries: tuple[Entry, ...]
    needs_sync: bool
    """False when at most a commit index is to be written: late or never does no harm."""

    messages: tuple[Message, ...]
    messages_after_sync: tuple[Message, ...]
    committed: tuple[Entry, ...]
    read_states: tuple[ReadState, ...]
    aborted_reads: tuple[int, ...]
    """Contexts that will never be answered because the leader changed: ask again."""

    snapshots_wanted: tuple[int, ...]
    """Peers that need a state image: make one, then ``begin_snapshot``."""


class Proposed(msgspec.Struct, frozen=True, gc=False):
    """Where proposals went. They are committed if and only if the entry that is applied at the
    index carries this term."""

    term: int
    first_index: int
    last_index: int
