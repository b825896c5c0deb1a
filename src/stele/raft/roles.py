"""Moves between the roles. Every change of term, role or leader goes through here.

    FOLLOWER ──timeout──▶ PRE_CANDIDATE ──majority would──▶ CANDIDATE ──majority did──▶ LEADER
        ▲                      │                                │                         │
        └── a leader, a higher term, a lost vote, or (leader) no quorum heard, removed ───┘

A pre-candidate has not raised its term (§9.6 of the dissertation): asking costs nobody anything. A
candidate's own vote counts like the others', once it is durable.
"""

from __future__ import annotations

from stele.raft.entries import NOBODY, Entry, EntryKind
from stele.raft.progress import Progress
from stele.raft.read_index import ReadRounds
from stele.raft.state import RaftState, Role


def become_follower(s: RaftState, term: int, leader: int) -> None:
    """Follow ``leader``, or wait for one to appear."""
    assert term >= s.term
    _enter(s, Role.FOLLOWER, term, leader)


def become_pre_candidate(s: RaftState) -> None:
    """Ask around before disturbing anyone; the term stays."""
    _enter(s, Role.PRE_CANDIDATE, s.term, NOBODY)


def become_candidate(s: RaftState) -> None:
    """Stand for election in the next term, voting for oneself."""
    _enter(s, Role.CANDIDATE, s.term + 1, NOBODY)
    s.vote = s.id


def become_leader(s: RaftState) -> None:
    """Lead: nothing is known about the others, and an entry of this term has to be committed
    before anything older counts as such (§3.6.2)."""
    assert s.role is Role.CANDIDATE
    _enter(s, Role.LEADER, s.term, s.id)
    s.log.append([Entry(s.term, s.log.last_index + 1, EntryKind.NOOP, b"")])
    s.uncommitted_bytes = s.log.bytes_between(s.log.commit, s.log.last_index)
    refresh_peers(s)


def refresh_peers(s: RaftState) -> None:
    """Track exactly the other members of the newest membership."""
    known = s.peers
    s.peers = {
        node: known.get(node) or Progress(s.log.last_index, s.config.inflight_bytes_max)
        for node in s.membership.members
        if node != s.id
    }


def _enter(s: RaftState, role: Role, term: int, leader: int) -> None:
    if (term, leader) != (s.term, s.leader):
        s.aborted_reads.extend(s.forwarded.drain())
    if term != s.term:
        s.term = term
        s.vote = NOBODY
    s.aborted_reads.extend(read.context for read in s.reads.drain() if read.origin == s.id)
    s.role = role
    s.leader = leader
    s.votes = {}
    s.peers = {}
    s.reads = ReadRounds()
    s.uncommitted_bytes = 0
    s.transfer_target = NOBODY
    s.heartbeat_elapsed = 0
    s.election_elapsed = 0
    # Drawn anew for each attempt, so that two who collided once part ways (§3.4).
    s.election_timeout = s.config.election_ticks + s.draw(s.config.election_ticks)
