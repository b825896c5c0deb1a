"""The registers of one node, shared by the modules that hold the rules.

The rules are functions over this state, one module for each part of the algorithm (election,
replication, reading, snapshots, changes, transfer). Only ``node.py`` is called from outside, and
only one thread may call it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from stele.errors import NotLeader
from stele.raft.config import RaftConfig
from stele.raft.entries import NOBODY, Entry, HardState, Snapshot
from stele.raft.log import RaftLog
from stele.raft.membership import Membership
from stele.raft.messages import Message
from stele.raft.progress import Progress
from stele.raft.read_index import ForwardedReads, ReadRounds
from stele.raft.ready import ReadState, Ready

Draw = Callable[[int], int]
"""``draw(n)`` gives a number from 0 to n - 1. The host hands in the dice."""


class Role(enum.Enum):
    """What a node is at present. A learner is a follower that may not stand for election."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(slots=True)
class RaftState:
    """Everything a node knows. Fields of one role are empty in the others."""

    id: int
    config: RaftConfig
    draw: Draw
    log: RaftLog
    forwarded: ForwardedReads

    term: int = 0
    vote: int = NOBODY
    role: Role = Role.FOLLOWER
    leader: int = NOBODY

    election_elapsed: int = 0
    """Ticks since the leader was heard, a vote given or, at the leader, the quorum checked."""
    election_timeout: int = 0
    abstains: bool = False
    """Whether this node leaves leading to others, for this life, as long as there are any."""
    votes: dict[int, bool] = field(default_factory=dict)

    heartbeat_elapsed: int = 0
    peers: dict[int, Progress] = field(default_factory=dict)
    """A leader's view of every other member."""
    reads: ReadRounds = field(default_factory=ReadRounds)
    uncommitted_bytes: int = 0
    transfer_target: int = NOBODY
    transfer_elapsed: int = 0

    messages: list[Message] = field(default_factory=list)
    messages_after_sync: list[Message] = field(default_factory=list)
    read_states: list[ReadState] = field(default_factory=list)
    aborted_reads: list[int] = field(default_factory=list)
    snapshots_wanted: list[int] = field(default_factory=list)
    snapshot_to_install: Snapshot | None = None

    @property
    def membership(self) -> Membership:
        """The newest membership in the log."""
        return self.log.history.current

    @property
    def is_voter(self) -> bool:
        """Whether this node counts itself in a quorum."""
        return self.id in self.log.history.current.voters

    @property
    def may_stand(self) -> bool:
        """Whether this node may stand for election: a voter, or one whose removal is not known to
        be decided (§4.2.2). Nobody but a leader that removed itself may hold that entry, and then
        the others need its vote and cannot have it, because their logs are shorter."""
        return self.is_voter or self.id in self.log.history.at(self.log.commit).voters

    def hard_state(self) -> HardState:
        """What has to survive."""
        return HardState(self.term, self.vote, self.log.commit)

    def send(self, message: Message) -> None:
        """Promises nothing about this node's disk: may leave while a write is under way."""
        self.messages.append(message)

    def send_after_sync(self, message: Message) -> None:
        """Rests on a vote or on entries: may leave only when all that is known here is durable.

        Answers that refuse wait as well. They carry a term that may be new, and the rule "an answer
        never speaks of what a crash could take back" is worth more than the little time.
        """
        self.messages_after_sync.append(message)

    @property
    def has_output(self) -> bool:
        """Whether something besides writes and commits waits for the host."""
        return bool(
            self.messages
            or self.messages_after_sync
            or self.read_states
            or self.aborted_reads
            or self.snapshots_wanted
        )

    def take_ready(
        self,
        number: int,
        hard_state: HardState | None,
        entries: tuple[Entry, ...],
        committed: tuple[Entry, ...],
        *,
        needs_sync: bool,
    ) -> Ready:
        """Hand everything collected over to the host."""
        ready = Ready(
            number,
            hard_state,
            self.snapshot_to_install,
            entries,
            needs_sync,
            tuple(self.messages),
            tuple(self.messages_after_sync),
            committed,
            tuple(self.read_states),
            tuple(self.aborted_reads),
            tuple(self.snapshots_wanted),
        )
        self.messages = []
        self.messages_after_sync = []
        self.read_states = []
        self.aborted_reads = []
        self.snapshots_wanted = []
        self.snapshot_to_install = None
        return ready

    def require_leader(self) -> None:
        """Refuse what only a leader can do, naming the leader if one is known."""
        if self.role is not Role.LEADER:
            known = self.leader != NOBODY
            raise NotLeader(
                f"node {self.id} is {self.role.value} in term {self.term}",
                leader=self.membership.address_of(self.leader) if known else None,
            )
