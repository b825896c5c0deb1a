"""The Raft node: a pure state machine from messages, ticks and proposals to Readys.

This file is the face of the algorithm and its table of rules: which message means what in which
role. The rules themselves stand in the modules around it. See ``ready.py`` for what the host owes.

The terms of every message are settled here first (§3.3 of the dissertation): a higher one is
adopted, a lower one is stale. Two refinements keep a disturbed group from livelock. A vote request
is passed over while a leader is alive, term and all (§4.2.3). And a stale leader is answered with
the higher term: it may be waiting for a node that got ahead in an election nobody won, and only
this answer makes it step down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stele.errors import Corruption, InvalidArgument
from stele.raft import election, leadership, proposals, reading, replication, snapshots
from stele.raft import messages as msg
from stele.raft.config import RaftConfig
from stele.raft.entries import NOBODY, Entry, Snapshot, StoredState, check_stored
from stele.raft.log import RaftLog
from stele.raft.membership import Change, Membership
from stele.raft.read_index import ForwardedReads
from stele.raft.ready import Proposed, Ready
from stele.raft.roles import become_follower
from stele.raft.state import Draw, RaftState, Role
from stele.raft.status import Status, describe
from stele.raft.transfer import transfer_leadership

Handler = Callable[[RaftState, Any], None]

NONCE_BITS = 62
"""Two lives of one node draw the same nonce with a chance of 2^-62."""


def _refuse_second_leader(s: RaftState, m: msg.Envelope) -> None:
    raise Corruption(f"nodes {s.id} and {m.source} both lead term {s.term}")


_AS_FOLLOWER: dict[type[msg.Envelope], Handler] = {
    msg.AppendRequest: replication.handle_append,
    msg.Heartbeat: leadership.handle_heartbeat,
    msg.InstallSnapshot: snapshots.handle_install,
    msg.VoteRequest: election.handle_vote_request,
}

HANDLERS: dict[Role, dict[type[msg.Envelope], Handler]] = {
    Role.FOLLOWER: {
        **_AS_FOLLOWER,
        msg.TimeoutNow: election.handle_timeout_now,
        msg.ReadResponse: reading.handle_read_response,
    },
    Role.PRE_CANDIDATE: {
        **_AS_FOLLOWER,
        msg.PreVoteResponse: election.handle_pre_vote_response,
    },
    Role.CANDIDATE: {
        **_AS_FOLLOWER,
        msg.VoteResponse: election.handle_vote_response,
    },
    Role.LEADER: {
        msg.AppendAccepted: replication.handle_accepted,
        msg.AppendRejected: replication.handle_rejected,
        msg.HeartbeatResponse: leadership.handle_heartbeat_response,
        msg.ReadRequest: reading.handle_read_request,
        msg.VoteRequest: election.handle_vote_request,
        **dict.fromkeys(msg.FROM_LEADER, _refuse_second_leader),
    },
}
"""A message that has no place in a role is an old one and means nothing."""


def _settle_term(s: RaftState, m: msg.Message) -> bool:
    """Bring this node to the message's term; whether the message still means something."""
    if m.term > s.term:
        if isinstance(m, msg.VoteRequest) and election.ignores_candidate(s, m):
            return False
        leader = m.source if isinstance(m, msg.FROM_LEADER) else NOBODY
        become_follower(s, m.term, leader)
    elif m.term < s.term:
        if isinstance(m, msg.FROM_LEADER):
            s.send(msg.HeartbeatResponse(s.id, m.source, s.term, 0))
        elif isinstance(m, msg.VoteRequest):
            s.send_after_sync(msg.VoteResponse(s.id, m.source, s.term, granted=False))
        # A node of a lower term may well promise its vote for a higher one.
        return isinstance(m, msg.PreVoteResponse)
    return True


class RaftNode:
    """One member of a group; implements ``RaftCore``. Not safe for use from several threads."""

    def __init__(self, node: int, config: RaftConfig, stored: StoredState, draw: Draw) -> None:
        if node < 1:
            raise InvalidArgument(f"node id {node} must be positive")
        check_stored(stored)
        forwarded = ForwardedReads(draw(1 << NONCE_BITS))
        self.state = RaftState(node, config, draw, RaftLog(stored), forwarded)
        """For checkers, which may look at everything and touch nothing."""

        become_follower(self.state, stored.hard_state.term, NOBODY)
        self.state.vote = stored.hard_state.vote
        self._offered_hard_state = self.state.hard_state()
        self._number = 0
        self._handlers_role = self.state.role
        self._handlers = HANDLERS[self.state.role]

    @property
    def role(self) -> Role:
        """See ``RaftCore``."""
        return self.state.role

    @property
    def term(self) -> int:
        """See ``RaftCore``."""
        return self.state.term

    @property
    def leader(self) -> int:
        """See ``RaftCore``."""
        return self.state.leader

    @property
    def membership(self) -> Membership:
        """See ``RaftCore``."""
        return self.state.log.history.current

    @property
    def commit(self) -> int:
        """See ``RaftCore``."""
        return self.state.log.commit

    @property
    def membership_index(self) -> int:
        """See ``RaftCore``."""
        log = self.state.log
        return log.history.current_index or log.base_index

    @property
    def removed_at(self) -> int:
        """See ``RaftCore``."""
        return self.state.log.history.left_at(self.state.id)

    @property
    def leading_term(self) -> int:
        """See ``RaftCore``."""
        s = self.state
        return s.term if s.role is Role.LEADER else 0

    def tick(self) -> None:
        """See ``RaftCore``."""
        if self.state.role is Role.LEADER:
            leadership.tick(self.state)
        else:
            election.tick(self.state)

    def step(self, message: msg.Message) -> None:
        """See ``RaftCore``."""
        s = self.state
        if message.target != s.id:
            raise InvalidArgument(f"message for node {message.target} came to node {s.id}")
        if isinstance(message, msg.PreVoteRequest):
            election.handle_pre_vote_request(s, message)
        elif _settle_term(s, message):
            if s.role is not self._handlers_role:
                self._handlers_role, self._handlers = s.role, HANDLERS[s.role]
            handler = self._handlers.get(type(message))
            if handler is not None:
                handler(s, message)

    def has_ready(self) -> bool:
        """See ``RaftCore``."""
        is_commit_new = self.state.log.commit != self._offered_hard_state.commit
        return is_commit_new or self.has_work() or self.owes_news()

    def has_work(self) -> bool:
        """See ``RaftCore``."""
        s, offered = self.state, self._offered_hard_state
        log = s.log
        return (
            log.ledger.offered != log.last_index
            or (log.handed < log.commit and log.handed < log.applicable_index())
            or s.has_output
            or s.term != offered.term
            or s.vote != offered.vote
            or bool(s.reads.waiting or s.forwarded.unsent)
            or s.snapshot_to_install is not None
            or replication.has_entries(s)
        )

    def owes_news(self) -> bool:
        """See ``RaftCore``."""
        s = self.state
        return s.role is Role.LEADER and replication.has_news(s)

    def ready(self) -> Ready | None:
        """See ``RaftCore``."""
        s = self.state
        if s.reads.waiting or s.forwarded.unsent:
            reading.flush(s)
        if s.role is Role.LEADER:
            replication.send_appends(s)
        offered = self._offered_hard_state
        entries = s.log.take_unwritten()
        promised = s.term != offered.term or s.vote != offered.vote
        needs_sync = promised or bool(entries) or s.snapshot_to_install is not None
        if s.messages_after_sync and not needs_sync and s.log.ledger.idle:
            # All that is known here is durable, so these answers have nothing to wait for.
            s.messages += s.messages_after_sync
            s.messages_after_sync = []
        committed = self.take_committed()
        advanced = s.log.commit != offered.commit
        if not (needs_sync or advanced or committed or s.has_output):
            return None
        self._number += 1
        written = None
        if promised or advanced:
            written = self._offered_hard_state = s.hard_state()
        if needs_sync:
            s.log.ledger.begin(self._number, s.log.last_index, s.term)
        return s.take_ready(self._number, written, entries, committed, needs_sync=needs_sync)

    def take_committed(self) -> tuple[Entry, ...]:
        """See ``RaftCore``."""
        return self.state.log.take_committed(self.state.config.committed_bytes_max)

    def persisted(self, number: int) -> None:
        """See ``RaftCore``."""
        s = self.state
        assert number <= self._number, f"Ready {number} was never given out"
        s.log.ledger.acknowledge(number)
        if s.role is Role.CANDIDATE and s.log.ledger.durable_term == s.term:
            election.note_vote(s, s.id, granted=True)
        elif s.role is Role.LEADER and replication.persisted_here(s) > s.log.commit:
            replication.advance_commit(s)

    def applied(self, index: int) -> None:
        """See ``RaftCore``."""
        self.state.log.applied_to(index)

    def propose(self, payloads: Sequence[bytes]) -> Proposed:
        """See ``RaftCore``."""
        return proposals.propose(self.state, payloads)

    def propose_change(self, change: Change) -> Proposed:
        """See ``RaftCore``."""
        return proposals.propose_change(self.state, change)

    def read_index(self, context: int) -> None:
        """See ``RaftCore``."""
        reading.ask(self.state, context)

    def transfer_leadership(self, target: int) -> None:
        """See ``RaftCore``."""
        transfer_leadership(self.state, target)

    def abstain(self, *, undo: bool = False) -> None:
        """See ``RaftCore``."""
        election.abstain(self.state, undo=undo)

    def campaign(self) -> None:
        """See ``RaftCore``."""
        s = self.state
        if s.role is not Role.LEADER and s.may_stand and not s.abstains:
            election.ask_for_pre_votes(s)

    def compact(self, index: int) -> Snapshot:
        """See ``RaftCore``."""
        return self.state.log.compact(index)

    def describe_snapshot(self, index: int) -> Snapshot:
        """See ``RaftCore``."""
        return self.state.log.describe(index)

    def begin_snapshot(self, peer: int, index: int) -> msg.InstallSnapshot:
        """See ``RaftCore``."""
        return snapshots.begin_snapshot(self.state, peer, index)

    def report_snapshot(self, peer: int, *, arrived: bool) -> None:
        """See ``RaftCore``."""
        snapshots.report_snapshot(self.state, peer, arrived=arrived)

    def report_unreachable(self, peer: int) -> None:
        """See ``RaftCore``."""
        replication.note_unreachable(self.state, peer)

    def status(self) -> Status:
        """See ``RaftCore``."""
        return describe(self.state)
