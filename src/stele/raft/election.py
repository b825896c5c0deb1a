"""How a leader comes to be (§3.4, §3.6.1, §4.2.3 and §9.6 of the dissertation).

Three rules make it safe: one vote a term, durable before it is spoken; no vote for a candidate
whose log is behind one's own; and only voters of the candidate's own membership are counted. Two
more keep the peace: a candidate first asks whether it could win, and nobody listens to candidates
while a leader is heard. So a node that was cut off or removed cannot depose a healthy leader.

A voter answers whoever asks, member or not: its own membership may be the outdated one.
"""

from __future__ import annotations

from stele.raft.entries import NOBODY
from stele.raft.log import RaftLog
from stele.raft.messages import (
    PreVoteRequest,
    PreVoteResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from stele.raft.quorum import VoteOutcome, count_votes
from stele.raft.roles import (
    become_candidate,
    become_follower,
    become_leader,
    become_pre_candidate,
)
from stele.raft.state import RaftState, Role

ABSTAINING_TIMEOUTS = 5
"""How many election timeouts a node that abstains leaves to the others: enough for some attempts
that collide, and few enough for a group that needs it."""


def tick(s: RaftState) -> None:
    """One tick without leadership: stand for election when the timeout has passed.

    Who abstains stands as well when nobody else can be elected for long: it may be the only one
    left with a log that holds everything, and then the others cannot win without its vote.
    """
    s.election_elapsed += 1
    patience = s.election_timeout * (ABSTAINING_TIMEOUTS if s.abstains else 1)
    if s.election_elapsed >= patience and s.may_stand:
        ask_for_pre_votes(s)


def ask_for_pre_votes(s: RaftState) -> None:
    """Find out whether an election could be won, without raising the term."""
    become_pre_candidate(s)
    for node in _other_voters(s):
        s.send(PreVoteRequest(s.id, node, s.term + 1, s.log.last_index, s.log.last_term))
    note_vote(s, s.id, granted=True)


def stand_for_election(s: RaftState, *, transfer: bool) -> None:
    """Raise the term and ask for votes, as soon as the own one is durable.

    Were the requests to leave earlier, a crash could bring the candidate back with a shorter log to
    collect votes that were given to the longer one.
    """
    become_candidate(s)
    for node in _other_voters(s):
        s.send_after_sync(
            VoteRequest(s.id, node, s.term, s.log.last_index, s.log.last_term, transfer)
        )


def _other_voters(s: RaftState) -> list[int]:
    return [node for node in s.membership.voters if node != s.id]


def handle_pre_vote_request(s: RaftState, m: PreVoteRequest) -> None:
    """Say whether a vote would be given; nothing here changes."""
    granted = (
        m.term > s.term
        and not leader_is_alive(s)
        and is_up_to_date(s.log, m.last_index, m.last_term)
    )
    s.send(PreVoteResponse(s.id, m.source, s.term, m.term, granted))


def handle_vote_request(s: RaftState, m: VoteRequest) -> None:
    """Give the vote of this term, once, to a candidate that misses nothing."""
    granted = may_vote_for(s, m.source) and is_up_to_date(s.log, m.last_index, m.last_term)
    if granted:
        s.vote = m.source
        s.election_elapsed = 0
    s.send_after_sync(VoteResponse(s.id, m.source, s.term, granted))


def may_vote_for(s: RaftState, candidate: int) -> bool:
    """One vote a term; asking twice gets the same answer. A known leader has the term already."""
    return s.vote == candidate or (s.vote == NOBODY and s.leader == NOBODY)


def is_up_to_date(log: RaftLog, last_index: int, last_term: int) -> bool:
    """Whether a log that ends so holds everything this one could have helped to commit: the later
    last term wins, and with equal terms the longer log (§3.6.1)."""
    return (last_term, last_index) >= (log.last_term, log.last_index)


def leader_is_alive(s: RaftState) -> bool:
    """A leader was heard within the smallest election timeout, so no election is due (§4.2.3).

    A leader vouches for itself: the quorum check ends its role when it should not.
    """
    heard = s.leader != NOBODY and s.election_elapsed < s.config.election_ticks
    return s.role is Role.LEADER or heard


def ignores_candidate(s: RaftState, m: VoteRequest) -> bool:
    """Whether a request for votes in a higher term is to be passed over, term and all."""
    return not m.transfer and leader_is_alive(s)


def handle_pre_vote_response(s: RaftState, m: PreVoteResponse) -> None:
    """Count an answer to the question that is still open."""
    if m.wanted_term == s.term + 1:
        note_vote(s, m.source, m.granted)


def handle_vote_response(s: RaftState, m: VoteResponse) -> None:
    """Count a vote of this term."""
    note_vote(s, m.source, m.granted)


def note_vote(s: RaftState, voter: int, granted: bool) -> None:
    """Count the first answer of each voter, and act when the outcome is clear."""
    s.votes.setdefault(voter, granted)
    outcome = count_votes(s.membership.voters, s.votes)
    if outcome is VoteOutcome.LOST:
        become_follower(s, s.term, NOBODY)
    elif outcome is VoteOutcome.WON:
        if s.role is Role.PRE_CANDIDATE:
            stand_for_election(s, transfer=False)
        else:
            become_leader(s)


def handle_timeout_now(s: RaftState, _: TimeoutNow) -> None:
    """The leader hands over: skip the waiting and the pre-vote (§3.10)."""
    if s.is_voter and not s.abstains:
        stand_for_election(s, transfer=True)


def abstain(s: RaftState, *, undo: bool) -> None:
    """Leave leading to others from now on, or no longer. Whoever stands for election gives it up;
    a leader leads until it has handed over, because nobody else can be made to."""
    s.abstains = not undo
    if s.abstains and s.role in (Role.PRE_CANDIDATE, Role.CANDIDATE):
        become_follower(s, s.term, NOBODY)
