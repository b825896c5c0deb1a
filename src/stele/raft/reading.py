"""Serving reads without the log (§6.4 of the dissertation): asking, rounds, forwarding.

A follower passes reads on to its leader and serves them itself at the index it is told.
"""

from __future__ import annotations

from stele.errors import Throttled
from stele.raft.entries import NOBODY
from stele.raft.messages import Heartbeat, ReadRequest, ReadResponse
from stele.raft.read_index import ConfirmedReads, PendingRead
from stele.raft.ready import ReadState
from stele.raft.state import RaftState, Role


def ask(s: RaftState, context: int) -> None:
    """Take a read of this node's host."""
    if s.role is not Role.LEADER and s.leader == NOBODY:
        s.require_leader()
    waiting = len(s.reads) + len(s.forwarded.unsent)
    if waiting >= s.config.reads_waiting_max:
        raise Throttled(f"{waiting} reads wait already (reads_waiting_max)")
    if s.role is Role.LEADER:
        s.reads.waiting.append(PendingRead(s.id, 0, context))
    else:
        s.forwarded.unsent.append(context)


def handle_read_request(s: RaftState, m: ReadRequest) -> None:
    """Take the reads a follower passed on. Beyond the limit they are dropped: it will ask again."""
    if len(s.reads) + len(m.contexts) <= s.config.reads_waiting_max:
        s.reads.waiting.extend(PendingRead(m.source, m.nonce, context) for context in m.contexts)


def handle_read_response(s: RaftState, m: ReadResponse) -> None:
    """The leader confirmed reads of this node."""
    for context in s.forwarded.answered(m.nonce, m.contexts):
        s.read_states.append(ReadState(context, m.index))


def flush(s: RaftState) -> None:
    """Before a Ready: begin a round, or pass on what was asked."""
    if s.role is Role.LEADER:
        if not s.reads.under_way and begin_round(s):
            for node in s.membership.voters:
                if node != s.id:
                    commit = min(s.peers[node].match, s.log.commit)
                    s.send(Heartbeat(s.id, node, s.term, commit, s.reads.latest))
            release_confirmed(s)
    elif s.forwarded.unsent and s.leader != NOBODY:
        contexts = s.forwarded.take_unsent(s.config.reads_waiting_max)
        s.send(ReadRequest(s.id, s.leader, s.term, s.forwarded.nonce, contexts))


def begin_round(s: RaftState) -> bool:
    """Give the waiting reads a round, if there are any and the commit index can be trusted."""
    if not s.reads.waiting or not commit_is_current(s):
        return False
    s.reads.begin(s.log.commit)
    return True


def commit_is_current(s: RaftState) -> bool:
    """A new leader holds all committed entries but does not know how far they go, until one of its
    own term is committed."""
    return s.log.term_at(s.log.commit) == s.term


def release_confirmed(s: RaftState) -> None:
    """Answer the reads of every round that a majority has confirmed."""
    for confirmed in s.reads.confirm(s.membership.voters, s.id):
        _answer(s, confirmed)


def _answer(s: RaftState, confirmed: ConfirmedReads) -> None:
    forwarded: dict[tuple[int, int], list[int]] = {}
    for origin, nonce, context in confirmed.reads:
        if origin == s.id:
            s.read_states.append(ReadState(context, confirmed.at_index))
        else:
            forwarded.setdefault((origin, nonce), []).append(context)
    for (origin, nonce), contexts in forwarded.items():
        s.send(ReadResponse(s.id, origin, s.term, nonce, tuple(contexts), confirmed.at_index))
