"""What enters the log, and what comes out of it.

A log entry is one byte of format version and one command as msgpack. A command is a deterministic
instruction: applied to the same state it gives the same state and the same answer on every
replica. Nothing here reads a clock; where time matters the leader has put it into a field.

Every command of a client says which request it is (``Identity``). One that was applied before is
answered from memory and not executed again. Commands that the leader makes by itself come from
``NOBODY`` and are idempotent by nature.

Refusals are answers too: a replica must not fail on what it is told, and a repeated command must
be refused again in the same words. ``raise_if_refused`` turns them into errors for the caller.

``command_checks.checked_payload`` bounds everything before it is proposed, so that no entry is ever
too large to apply. ``docs/formats/metastore.md`` has the grammar.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

import stele.errors
from stele.errors import Corruption, LimitExceeded, SteleError, UnsupportedFormat
from stele.protocol.metastore_values import (
    Change,
    Compare,
    Delete,
    Identity,
    KeyRange,
    KeyValue,
    Operation,
    Put,
)

FORMAT_VERSION: Final = 1

NOBODY: Final = Identity(0, 0, 0)
"""The leader itself: no retries, because what it proposes does no harm when done twice."""

COMMAND_BYTES_MAX: Final = 3 << 19
"""1.5 MiB: an entry must not hold up the heartbeats behind it."""


class LockState(enum.IntEnum):
    """Where a request for a lock stands."""

    GRANTED = 1
    WAITING = 2
    BUSY = 3
    """Somebody else is before it and it did not want to wait."""
    ENDED = 4
    """Released or cancelled, or its session has ended."""


class LockRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A holder of a lock, or one who waits."""

    ticket: int
    """The index of the entry that asked; names the request."""
    session: int
    exclusive: bool
    token: int = 0
    """The index of the entry that granted it: the fencing token. 0 while it waits."""


class LockInfo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who holds a lock and who waits, first come first."""

    holders: tuple[LockRequest, ...] = ()
    waiters: tuple[LockRequest, ...] = ()


class SessionInfo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A session that has not ended. Its id is the index of the entry that opened it."""

    id: int
    client: int
    """Only requests of this client may use the session."""
    ttl_us: int
    owner: str
    """For people: who opened it."""
    opened_us: int


class Grant(enum.IntFlag):
    """What an access rule allows."""

    READ = 1
    """Get, range, watch."""
    WRITE = 2
    """Put and delete."""
    LOCK = 4
    ADMIN = 8
    """Change the rules of the directory and of those below it."""
    ALL = 15


class AclRule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one identity may do; ``*`` stands for everyone who is authenticated."""

    identity: str
    grant: Grant


# Commands. The tags and the order of fields are the format.


class Execute(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """If all compares hold do ``success``, else ``failure``; a single put is the smallest case."""

    identity: Identity
    success: tuple[Operation, ...]
    compares: tuple[Compare, ...] = ()
    failure: tuple[Operation, ...] = ()


class CommitTransaction(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """Write if no key in the ranges was changed after ``read_index``, else ``Conflict``."""

    identity: Identity
    read_index: int
    ranges: tuple[KeyRange, ...]
    writes: tuple[Put | Delete, ...]


class OpenSession(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """Open a session; its id is the index of this entry."""

    identity: Identity
    ttl_us: int
    owner: str
    now_us: int


class CloseSession(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """End a session: its ephemeral keys go, its locks pass on. Idempotent."""

    identity: Identity
    session: int


class ExpireSessions(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """The leader's word that nobody kept these sessions alive. Unknown ones are skipped."""

    identity: Identity
    sessions: tuple[int, ...]
    now_us: int


class Acquire(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """Ask for a lock. With ``wait`` false the answer is ``BUSY`` where it would be ``WAITING``."""

    identity: Identity
    session: int
    key: str
    exclusive: bool = True
    wait: bool = True


class Release(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """Give a lock back, or leave its queue. Idempotent; ``ticket`` 0 means any request."""

    identity: Identity
    session: int
    key: str
    ticket: int = 0


class CancelWait(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """Leave the queue of a lock. A request that was granted meanwhile stays granted, and the answer
    says so: who gave up has to release it."""

    identity: Identity
    session: int
    key: str
    ticket: int


class SetAcl(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9):
    """Replace the rules of a directory; without rules the next directory above holds again."""

    identity: Identity
    directory: str
    rules: tuple[AclRule, ...]
    expected: tuple[AclRule, ...] | None = None
    """If given: only while the directory has these rules, else ``Conflict``."""


class SwitchAcl(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """Turn access rules on or off. On needs somebody who may administer ``/``."""

    identity: Identity
    enabled: bool


class AdvanceWaterline(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=11):
    """Give up history below an index. One entry gives up a bounded part, the answer says where the
    waterline stands; the entries that follow give up the rest, a little each."""

    identity: Identity
    to_index: int


class RaiseAlarm(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=12):
    """The disk of a node is nearly full: refuse what takes space until the alarm is cleared."""

    identity: Identity
    node: int
    reason: str


class ClearAlarm(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=13):
    """The disk of this node has room again; 0 clears the alarms of all nodes."""

    identity: Identity
    node: int


class SetQuota(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=14):
    """The most bytes that keys and values may take, history counted; 0 for no limit."""

    identity: Identity
    limit_bytes: int


Command = (
    Execute
    | CommitTransaction
    | OpenSession
    | CloseSession
    | ExpireSessions
    | Acquire
    | Release
    | CancelWait
    | SetAcl
    | SwitchAcl
    | AdvanceWaterline
    | RaiseAlarm
    | ClearAlarm
    | SetQuota
)

# Answers.


class Executed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """What an ``Execute`` did at ``index``, one result for each operation of the branch taken.

    A put gives the key's new version, a deletion the number of keys, a get the key or ``None``.
    """

    index: int
    succeeded: bool
    results: tuple[int | KeyValue | None, ...]


class Done(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """Done at ``index``; also the answer of a transaction that committed."""

    index: int


class SessionOpened(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """The session's id."""

    session: int


class LockAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """Where a request for a lock stands; ``token`` is 0 unless it is granted."""

    state: LockState
    ticket: int
    token: int = 0


class WaterlineAt(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """Where the waterline stands: nothing below it can be read."""

    index: int


class Refused(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """Nothing was done. ``error`` is the name of an error of ``stele.errors``."""

    error: str
    message: str


Answer = Executed | Done | SessionOpened | LockAnswer | WaterlineAt | Refused


class LockGranted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One who waited has got its lock, through the entry ``token`` of somebody else."""

    key: str
    session: int
    ticket: int
    token: int


class Effects(msgspec.Struct, frozen=True, gc=False):
    """What an entry did, for those who wait and watch.

    The entry of a command that was applied before has its first answer and no effect.
    """

    index: int
    answer: Answer | None
    """``None`` for an entry that is not a command: a leader's first one, or a membership."""
    changes: tuple[Change, ...] = ()
    granted: tuple[LockGranted, ...] = ()
    opened: tuple[SessionInfo, ...] = ()
    ended: tuple[int, ...] = ()
    """Sessions that were closed or have expired."""


_VERSION_BYTE: Final = bytes([FORMAT_VERSION])
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(Command)
_answer_decoder: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def encode_command(command: Command) -> bytes:
    """The payload of a log entry. ``LimitExceeded`` when it is larger than one may be."""
    data = _VERSION_BYTE + _encoder.encode(command)
    if len(data) > COMMAND_BYTES_MAX:
        raise LimitExceeded(
            f"a request of {len(data)} bytes is larger than the limit of {COMMAND_BYTES_MAX}"
        )
    return data


def decode_command(data: bytes) -> Command:
    """The reverse, for entries of a log: anything odd is not a mistake of a client."""
    if data[:1] != _VERSION_BYTE:
        raise UnsupportedFormat(
            f"a log entry of format version 0x{data[:1].hex()}, this program knows "
            f"{FORMAT_VERSION}: run a newer release"
        )
    try:
        return _decoder.decode(memoryview(data)[1:])
    except (ValueError, RecursionError) as error:
        raise Corruption(f"a log entry that cannot be read: {error}") from error


def encode_answer(answer: Answer) -> bytes:
    """As it is kept for a client that may ask again."""
    return _encoder.encode(answer)


def decode_answer(data: bytes) -> Answer:
    """The reverse."""
    try:
        return _answer_decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise Corruption(f"a kept answer that cannot be read: {error}") from error


def refuse(error: SteleError) -> Refused:
    """The answer that stands for an error."""
    return Refused(type(error).__name__, str(error))


def error_of(refused: Refused) -> SteleError:
    """The error that an answer stands for."""
    kind = getattr(stele.errors, refused.error, SteleError)
    error: SteleError = kind(refused.message)
    return error


def raise_if_refused(answer: Answer) -> Answer:
    """The answer itself, or its error raised."""
    if isinstance(answer, Refused):
        raise error_of(answer)
    return answer
