"""The settings of a Raft node, each with its unit, its default and what it trades.

Time is counted in ticks. How long a tick lasts is the host's business; nothing in this package
reads a clock. Sizes are counted in payload bytes plus ``ENTRY_OVERHEAD_BYTES`` for each entry, so
that a flood of empty entries cannot slip through a limit on bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from stele.errors import InvalidArgument
from stele.raft.entries import ENTRY_OVERHEAD_BYTES

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Checked once, when it is made."""

    election_ticks: int = 10
    """A follower that hears nothing for this long, plus a draw below it, stands for election.
    It is also the period of the leader's quorum check and the life of a leader's protection
    against candidates (§4.2.3 of the dissertation)."""

    heartbeat_ticks: int = 1
    """The leader's heartbeat period; well below ``election_ticks``, or loss looks like death."""

    entry_bytes_max: int = 2 * MIB
    """A larger proposal is refused: it would hold up heartbeats and the sync behind it."""

    append_bytes_max: int = 256 * KIB
    """One append message carries at least one entry and otherwise at most this much."""

    inflight_bytes_max: int = 4 * MIB
    """Sent to one follower and not yet acknowledged; a slow one must not eat our memory."""

    uncommitted_bytes_max: int = 64 * MIB
    """Proposals beyond this wait outside: a leader without a quorum must not grow for ever. At
    least one entry of the largest size has to fit."""

    committed_bytes_max: int = 1 * MIB
    """Committed entries handed out in one Ready, so that applying never stalls the loop."""

    reads_waiting_max: int = 65_536
    """Linearizable reads that wait for their round; more are refused."""

    promotion_lag_entries_max: int = 1_000
    """A learner further behind may not become a voter: until it caught up, it would only weaken
    the quorum (§4.2.1)."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise InvalidArgument(f"raft config {field.name} is {value}, must be at least 1")
        if self.heartbeat_ticks >= self.election_ticks:
            raise InvalidArgument(
                f"raft config heartbeat_ticks is {self.heartbeat_ticks}, "
                f"must be below election_ticks ({self.election_ticks})"
            )
        largest = self.entry_bytes_max + ENTRY_OVERHEAD_BYTES
        if self.uncommitted_bytes_max < largest:
            raise InvalidArgument(
                f"raft config uncommitted_bytes_max is {self.uncommitted_bytes_max}, "
                f"must hold the largest entry ({largest} bytes)"
            )
