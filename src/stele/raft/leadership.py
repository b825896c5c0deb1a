"""Staying leader: heartbeats and the quorum check.

A leader that does not hear from a majority for a whole election timeout steps down (§6.2 of the
dissertation): others may have elected a successor it cannot see, and its clients should look for
that one. Heartbeats are apart from appends so that a full window or a slow disk never makes a live
leader look dead; they also carry the rounds of reads and prod followers whose messages were lost.
"""

from __future__ import annotations

from stele.raft import reading
from stele.raft.entries import NOBODY
from stele.raft.messages import Heartbeat, HeartbeatResponse
from stele.raft.quorum import majority_of
from stele.raft.replication import follow
from stele.raft.roles import become_follower
from stele.raft.state import RaftState
from stele.raft.transfer import tick_transfer


def tick(s: RaftState) -> None:
    """One tick of leadership."""
    s.heartbeat_elapsed += 1
    s.election_elapsed += 1
    tick_transfer(s)
    if s.election_elapsed >= s.config.election_ticks:
        s.election_elapsed = 0
        if not quorum_is_active(s):
            become_follower(s, s.term, NOBODY)
            return
        for progress in s.peers.values():
            progress.begin_period()
    if s.heartbeat_elapsed >= s.config.heartbeat_ticks:
        s.heartbeat_elapsed = 0
        began = reading.begin_round(s)
        broadcast_heartbeat(s)
        if began:
            reading.release_confirmed(s)  # a leader that is a majority by itself waits for nobody


def quorum_is_active(s: RaftState) -> bool:
    """Whether a majority of the voters was heard since the last check; learners do not count."""
    voters = s.membership.voters
    active = sum(node == s.id or s.peers[node].recently_active for node in voters)
    return active >= majority_of(voters)


def broadcast_heartbeat(s: RaftState) -> None:
    """To every member. What a follower is told is committed, it is known to hold."""
    for node, progress in s.peers.items():
        commit = min(progress.match, s.log.commit)
        s.send(Heartbeat(s.id, node, s.term, commit, s.reads.latest))


def handle_heartbeat(s: RaftState, m: Heartbeat) -> None:
    """Answer at once: the answer says who is followed, not what is on disk."""
    follow(s, m)
    s.log.commit_to(m.commit)
    s.send(HeartbeatResponse(s.id, m.source, s.term, m.round))


def handle_heartbeat_response(s: RaftState, m: HeartbeatResponse) -> None:
    """A follower lives and follows."""
    progress = s.peers.get(m.source)
    if progress is not None:
        progress.note_alive(s.log.last_index)
        s.reads.answer(m.source, m.round)
        reading.release_confirmed(s)
