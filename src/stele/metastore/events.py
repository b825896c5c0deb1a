"""What a metastore node hears, and what it wants done: the two languages of ``node.py``.

The node is pure. Its host feeds it **events** as they come (``Node.handle``) and, once for each
turn of its loop, takes the **instructions** that follow from all of them together (``Node.take``).
So everything that arrives within one turn shares one group in the log, one append to each follower
and one round of heartbeats for all reads.

What the host owes for one ``Instructions``, in this order:

1. ``send``: give the messages to the network at once. None of them rests on a write of this turn;
   the node keeps those that do until it hears ``Persisted``.
2. ``persist``: append the groups to the log, in order, behind those of earlier turns, and sync.
   Then say ``Persisted(number)`` with the number of the last group that is durable. Groups of
   many turns may share one sync. When a group with a snapshot is durable, its image becomes the
   state: say ``StateReplaced``, then ``Persisted``. If the sync fails say ``StorageLost``: the node
   stops, and nothing is tried again. ``log_worker.py`` does all of this.
3. ``apply``: give the entries to the state machine, in order, in one batch, and say ``Applied``.
4. ``answers``, ``refusals``: whoever asked under that number gets this.
5. ``reads``: look the requests up in the state machine now; it has applied all they may see.
6. ``make_images``, ``sync_state``, ``cut_log``: begin these; they report by events of their own.
7. ``stop``: let go of everything. A new node may be made from the disk, unless it was lost.

Requests are numbered by the host. A number is answered exactly once: by an answer, a refusal, or a
read to serve; after ``Forget`` possibly not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stele.errors import SteleError
from stele.metastore.commands import Effects
from stele.raft import Change, Entry, HardState, InstallSnapshot, Message, Snapshot

# Events.


class Tick(msgspec.Struct, frozen=True, gc=False):
    """A unit of Raft time has passed. ``now_us`` is monotonic and counts while suspended: sessions
    are measured by it and by nothing else. ``wall_us`` only dates what enters the log."""

    now_us: int
    wall_us: int = 0


class PeerMessage(msgspec.Struct, frozen=True):
    """Another member said something. Old, doubled and reordered messages do no harm."""

    message: Message


class PeerUnreachable(msgspec.Struct, frozen=True, gc=False):
    """Messages to ``peer`` are being lost."""

    peer: int


class Write(msgspec.Struct, frozen=True, gc=False):
    """A client's command, encoded. Answered with what the state machine said, or refused."""

    request: int
    payload: bytes


class WriteMany(msgspec.Struct, frozen=True, gc=False):
    """Several commands that came together. Answered with a list of what the state machine said to
    each, once all of them are applied; or refused as a whole."""

    request: int
    payloads: tuple[bytes, ...]


class Read(msgspec.Struct, frozen=True, gc=False):
    """A linearizable read, at any member. Comes back in ``Instructions.reads``, or refused."""

    request: int


class KeepAlive(msgspec.Struct, frozen=True, gc=False):
    """A session's owner lives. Answered with the session's TTL in microseconds, counted from when
    the owner sent this; refused with ``SessionExpired`` when the session has ended."""

    request: int
    session: int


class ChangeMembership(msgspec.Struct, frozen=True):
    """One step of the membership. Answered with the ``Membership`` when it is committed."""

    request: int
    change: Change


class JoinGroup(msgspec.Struct, frozen=True):
    """``node`` wants to vote. It becomes a learner, and a voter once it has caught up; answered
    with the ``Membership`` then. May be asked again at any time."""

    request: int
    node: int
    address: str


class TransferLeadership(msgspec.Struct, frozen=True, gc=False):
    """Hand leadership to ``target``, or to the voter that is furthest when that is 0. Answered
    with the id of the new leader; refused when this one still leads after an election timeout."""

    request: int
    target: int = 0


class Drain(msgspec.Struct, frozen=True, gc=False):
    """Leave leading to others, or with ``undo`` no longer. Answered with the id of the leader, once
    that is another, or 0 while none is known; refused when nobody has taken over, as for a
    transfer, and may be asked again then."""

    request: int
    undo: bool = False


class Forget(msgspec.Struct, frozen=True, gc=False):
    """Nobody waits for this request any more, which is not answered yet. What it asked for may
    still happen."""

    request: int


class Persisted(msgspec.Struct, frozen=True, gc=False):
    """All groups up to ``number`` are durable, in the log and in the directory."""

    number: int


class Applied(msgspec.Struct, frozen=True):
    """The state machine has applied the entries, with these effects, one for each."""

    entries: tuple[Entry, ...]
    effects: Sequence[Effects]
    over_quota: bool = False
    """The state is larger than it may be and no alarm says so yet."""


class StateReplaced(msgspec.Struct, frozen=True):
    """The image of a snapshot has become the state; these are the sessions in it, with TTLs."""

    index: int
    sessions: tuple[tuple[int, int], ...]


class StateSynced(msgspec.Struct, frozen=True, gc=False):
    """The state machine's effects up to ``index`` are durable on their own, without the log."""

    index: int


class ImageMade(msgspec.Struct, frozen=True, gc=False):
    """An image of the state after applying ``index`` is at hand, for ``peer``."""

    peer: int
    index: int


class ImageSent(msgspec.Struct, frozen=True, gc=False):
    """The transfer to ``peer`` has ended."""

    peer: int
    arrived: bool


class ImageArrived(msgspec.Struct, frozen=True):
    """The whole image that ``message`` speaks of lies here, checked and durable."""

    message: InstallSnapshot


class SpaceShort(msgspec.Struct, frozen=True, gc=False):
    """The disk of ``node`` is full but for the reserve."""

    node: int


class AlarmOver(msgspec.Struct, frozen=True, gc=False):
    """There is no reason any more for the alarm of ``node``."""

    node: int


class ToldRemoved(msgspec.Struct, frozen=True, gc=False):
    """The member at ``address`` says: up to ``index`` it is decided that this node is none."""

    index: int
    address: str


class StorageLost(msgspec.Struct, frozen=True, gc=False):
    """A write or sync failed for good: what is on disk is unknown."""

    reason: str


Event = (
    Tick
    | PeerMessage
    | PeerUnreachable
    | Write
    | WriteMany
    | Read
    | KeepAlive
    | ChangeMembership
    | JoinGroup
    | TransferLeadership
    | Drain
    | Forget
    | Persisted
    | Applied
    | StateReplaced
    | StateSynced
    | ImageMade
    | ImageSent
    | ImageArrived
    | SpaceShort
    | AlarmOver
    | ToldRemoved
    | StorageLost
)

# Instructions.


class Group(msgspec.Struct, frozen=True):
    """One write to the log, as a whole: first the snapshot, then the entries, which replace
    whatever stood at their indices and beyond, then the hard state."""

    number: int
    snapshot: Snapshot | None
    entries: tuple[Entry, ...]
    hard_state: HardState | None
    needs_sync: bool
    """False when late or never does no harm: the next sync takes it along."""


class Answer(msgspec.Struct, frozen=True):
    """The request has its answer."""

    request: int
    value: Any


class Refusal(msgspec.Struct, frozen=True):
    """The request failed. ``OutcomeUnknown`` says that it may still take effect."""

    request: int
    error: SteleError


class ServeReads(msgspec.Struct, frozen=True, gc=False):
    """These reads may be served from the state as it is now, which has applied ``index``."""

    requests: tuple[int, ...]
    index: int


class SendImage(msgspec.Struct, frozen=True):
    """Stream the image that was made for a peer; ``message`` concludes it."""

    message: InstallSnapshot


class Instructions(msgspec.Struct, frozen=True):
    """Everything to be done after one turn; the module says in which order."""

    send: tuple[Message, ...] = ()
    persist: tuple[Group, ...] = ()
    apply: tuple[Entry, ...] = ()
    answers: tuple[Answer, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    reads: tuple[ServeReads, ...] = ()
    make_images: tuple[int, ...] = ()
    """Peers that need an image of the state; say ``ImageMade``."""

    send_images: tuple[SendImage, ...] = ()
    sync_state: bool = False
    """Make the state durable on its own; say ``StateSynced``."""

    cut_log: Snapshot | None = None
    """The log up to this index is no longer needed."""

    report_space: int = 0
    """Tell this member, the leader, how the own disk is: full, or not any more."""

    stop: str | None = None
