from __future__ import annotations

import pytest

from stele.raft import EntryKind, Role
from stele.raft.entries import NOBODY
from stele.raft.roles import (
    become_candidate,
    become_follower,
    become_leader,
    become_pre_candidate,
    refresh_peers,
)
from tests.unit.raft.group import make_group, make_node


def test_a_new_term_forgets_the_vote_and_the_same_term_keeps_it() -> None:
    s = make_node().state
    s.vote = 2
    become_follower(s, 1, 3)
    assert (s.role, s.vote, s.leader) == (Role.FOLLOWER, 2, 3)
    become_follower(s, 2, NOBODY)
    assert (s.term, s.vote, s.leader) == (2, NOBODY, NOBODY)


def test_terms_never_go_back() -> None:
    s = make_node().state
    with pytest.raises(AssertionError):
        become_follower(s, 0, NOBODY)


def test_a_pre_candidate_keeps_its_term_and_a_candidate_votes_for_itself() -> None:
    s = make_node().state
    become_pre_candidate(s)
    assert (s.role, s.term, s.vote) == (Role.PRE_CANDIDATE, 1, NOBODY)
    become_candidate(s)
    assert (s.role, s.term, s.vote) == (Role.CANDIDATE, 2, 1)


def test_every_attempt_draws_a_new_timeout_within_bounds() -> None:
    draws = iter([0, 3, 9])
    s = make_node().state
    s.draw = lambda _: next(draws)
    seen = []
    for _ in range(3):
        become_candidate(s)
        seen.append(s.election_timeout)
    assert seen == [10, 13, 19]


def test_a_leader_begins_with_an_empty_entry_and_knows_nothing_of_the_others() -> None:
    s = make_node(learners=(4,)).state
    become_candidate(s)
    become_leader(s)
    (noop,) = s.log.take_unwritten()
    assert (noop.kind, noop.term, noop.index) == (EntryKind.NOOP, 2, 2)
    assert {node: (p.match, p.next) for node, p in s.peers.items()} == dict.fromkeys(
        (2, 3, 4), (0, 2)
    )
    assert s.uncommitted_bytes == s.log.bytes_between(1, 2)


def test_only_a_candidate_becomes_leader() -> None:
    with pytest.raises(AssertionError):
        become_leader(make_node().state)


def test_refreshing_keeps_what_is_known() -> None:
    leader, *_ = make_group()
    s = leader.state
    known = s.peers[2]
    refresh_peers(s)
    assert s.peers[2] is known
    assert s.peers.keys() == {2, 3}


def test_reads_are_given_up_with_the_role() -> None:
    leader, follower, _ = make_group()
    leader.read_index(5)
    become_follower(leader.state, 2, NOBODY)
    assert leader.state.aborted_reads == [5]
    follower.read_index(6)
    become_follower(follower.state, 2, 1)
    assert follower.state.aborted_reads == []
    become_follower(follower.state, 3, 1)
    assert follower.state.aborted_reads == [6]
