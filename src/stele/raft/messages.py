"""What nodes say to each other: one frozen type for each message, and their codec.

Every message names its source, its target and the sender's term. A higher term always wins: the
receiver moves up to it before anything else (§3.3 of the dissertation). The one exception is the
pre-vote, whose request carries the term the sender would like to have and changes nothing at the
receiver (§9.6).

On the wire a message is a msgpack array that begins with its tag. Tags and the order of fields are
format: a new field goes to the end, with a default.
"""

from __future__ import annotations

import msgspec

from stele.errors import Corruption, InvalidArgument
from stele.raft.entries import Entry, Snapshot


class Envelope(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The head of every message."""

    source: int
    target: int
    term: int


class AppendRequest(Envelope, frozen=True, array_like=True, gc=False, tag="append"):
    """Entries that follow ``prev``; refused unless the receiver has exactly that one (§3.5)."""

    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...]
    commit: int


class AppendAccepted(Envelope, frozen=True, array_like=True, gc=False, tag="append-ok"):
    """The sender's durable log equals the leader's up to ``index``."""

    index: int


class AppendRejected(Envelope, frozen=True, array_like=True, gc=False, tag="append-no"):
    """``prev_index`` did not match. The hint is the last entry of the sender that may still match:
    the newest at or before ``prev_index`` whose term is not above the one asked for."""

    prev_index: int
    hint_index: int
    hint_term: int


class Heartbeat(Envelope, frozen=True, array_like=True, gc=False, tag="beat"):
    """The leader lives. ``commit`` never exceeds what the receiver is known to hold; ``round``
    numbers the read round this beat belongs to (§6.4)."""

    commit: int
    round: int


class HeartbeatResponse(Envelope, frozen=True, array_like=True, gc=False, tag="beat-ok"):
    """The sender follows this leader still; echoes the round of the beat it answers."""

    round: int


class PreVoteRequest(Envelope, frozen=True, array_like=True, gc=False, tag="prevote"):
    """Would you vote for me in ``term``? Binds nobody."""

    last_index: int
    last_term: int


class PreVoteResponse(Envelope, frozen=True, array_like=True, gc=False, tag="prevote-ok"):
    """``term`` is the sender's own, ``wanted_term`` the one it was asked about."""

    wanted_term: int
    granted: bool


class VoteRequest(Envelope, frozen=True, array_like=True, gc=False, tag="vote"):
    """Vote for me. ``transfer`` says the old leader asked for this election, so its protection
    against candidates does not apply (§4.2.3)."""

    last_index: int
    last_term: int
    transfer: bool


class VoteResponse(Envelope, frozen=True, array_like=True, gc=False, tag="vote-ok"):
    """A vote, durable at its sender, or its refusal."""

    granted: bool


class TimeoutNow(Envelope, frozen=True, array_like=True, gc=False, tag="timeout-now"):
    """The leader hands over: stand for election at once (§3.10)."""


class InstallSnapshot(Envelope, frozen=True, array_like=True, gc=False, tag="snapshot"):
    """The complete image of ``snapshot`` has arrived. The host moves the image and steps this
    message only when every chunk is there and checked."""

    snapshot: Snapshot


class ReadRequest(Envelope, frozen=True, array_like=True, gc=False, tag="read"):
    """A follower asks the leader for a read index. ``nonce`` differs for each start of a node, so
    that an answer to an earlier life is never taken for one to this."""

    nonce: int
    contexts: tuple[int, ...]


class ReadResponse(Envelope, frozen=True, array_like=True, gc=False, tag="read-ok"):
    """These reads may be served from ``index`` on."""

    nonce: int
    contexts: tuple[int, ...]
    index: int


Message = (
    AppendRequest
    | AppendAccepted
    | AppendRejected
    | Heartbeat
    | HeartbeatResponse
    | PreVoteRequest
    | PreVoteResponse
    | VoteRequest
    | VoteResponse
    | TimeoutNow
    | InstallSnapshot
    | ReadRequest
    | ReadResponse
)

FROM_LEADER = (AppendRequest, Heartbeat, InstallSnapshot)
"""Only the leader of a term sends these, so they also tell who it is."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """The bytes of one message."""
    return _ENCODER.encode(message)


def decode_message(data: bytes) -> Message:
    """Read a message back; ``Corruption`` when the bytes are not one."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidArgument) as error:
        raise Corruption(f"raft message cannot be read: {error}") from error
