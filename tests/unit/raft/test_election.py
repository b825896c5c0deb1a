from __future__ import annotations

import pytest

from stele.raft import Role
from stele.raft import messages as msg
from stele.raft.election import ignores_candidate, is_up_to_date, leader_is_alive, may_vote_for
from stele.raft.entries import Entry, EntryKind, HardState, Snapshot, StoredState
from stele.raft.log import RaftLog
from tests.unit.raft.group import make_group, make_node, messages_of, role_of, settle, work


def log_ending(index: int, term: int) -> RaftLog:
    return RaftLog(StoredState(HardState(term), Snapshot(index, term), applied=index))


@pytest.mark.parametrize(
    ("index", "term", "fits"),
    [(5, 3, True), (6, 3, True), (4, 3, False), (1, 4, True), (9, 2, False)],
)
def test_up_to_date_goes_by_term_then_length(index: int, term: int, fits: bool) -> None:
    assert is_up_to_date(log_ending(5, 3), index, term) is fits


def test_one_vote_a_term_and_none_beside_a_leader() -> None:
    s = make_node().state
    assert may_vote_for(s, 2)
    s.vote = 2
    assert may_vote_for(s, 2)
    assert not may_vote_for(s, 3)
    s.vote, s.leader = 0, 3
    assert not may_vote_for(s, 2)


def test_a_leader_is_alive_for_one_smallest_timeout() -> None:
    leader, follower, _ = make_group()
    for _ in range(9):
        follower.tick()
    assert leader_is_alive(follower.state)
    follower.tick()
    assert not leader_is_alive(follower.state)
    assert leader_is_alive(leader.state)


def test_a_transfer_overrides_the_protection() -> None:
    _, follower, _ = make_group()
    request = msg.VoteRequest(3, 2, 9, 9, 9, transfer=False)
    assert ignores_candidate(follower.state, request)
    blessed = msg.VoteRequest(3, 2, 9, 9, 9, transfer=True)
    assert not ignores_candidate(follower.state, blessed)


def test_the_first_answer_of_a_voter_counts() -> None:
    node = make_node()
    node.campaign()
    node.step(msg.PreVoteResponse(2, 1, 1, 2, granted=True))
    work(node)
    node.step(msg.VoteResponse(2, 1, 2, granted=False))
    node.step(msg.VoteResponse(2, 1, 2, granted=True))
    assert role_of(node) is Role.CANDIDATE
    node.step(msg.VoteResponse(3, 1, 2, granted=False))
    assert role_of(node) is Role.FOLLOWER


def test_a_tick_beyond_the_timeout_stands_again() -> None:
    node = make_node()
    for _ in range(10):
        node.tick()
    first = messages_of(work(node))
    for _ in range(10):
        node.tick()
    again = messages_of(work(node))
    assert [type(m) for m in first + again] == [msg.PreVoteRequest] * 4
    assert node.state.term == 1


def test_a_candidate_that_hears_nothing_asks_around_again() -> None:
    node = make_node()
    node.campaign()
    node.step(msg.PreVoteResponse(2, 1, 1, 2, granted=True))
    work(node)
    for _ in range(10):
        node.tick()
    assert (node.state.role, node.state.term) == (Role.PRE_CANDIDATE, 2)


def test_timeout_now_skips_the_pre_vote() -> None:
    leader, heir, third = make_group()
    heir.step(msg.TimeoutNow(1, 2, 2))
    requests = messages_of(work(heir))
    assert [type(m) for m in requests] == [msg.VoteRequest] * 2
    for request in requests:
        assert isinstance(request, msg.VoteRequest)
        assert request.transfer
        {1: leader, 3: third}[request.target].step(request)
    settle(leader, heir, third)
    assert heir.state.role is Role.LEADER


def test_a_learner_ignores_timeout_now() -> None:
    learner = make_node(4, learners=(4,))
    learner.step(msg.TimeoutNow(1, 4, 1))
    assert learner.state.role is Role.FOLLOWER


def test_a_vote_restarts_the_timeout_and_a_refusal_does_not() -> None:
    stored = StoredState(HardState(1), Snapshot(), (Entry(1, 1, EntryKind.DATA, b""),))
    node = make_node(1, stored=stored)
    for _ in range(5):
        node.tick()
    node.step(msg.VoteRequest(2, 1, 1, 0, 0, transfer=False))
    assert node.state.election_elapsed == 5
    node.step(msg.VoteRequest(2, 1, 1, 1, 1, transfer=False))
    assert node.state.election_elapsed == 0


def test_who_abstains_does_not_stand_but_votes() -> None:
    first, second, third = make_group()
    second.abstain()
    for _ in range(49):
        second.tick()
    second.campaign()
    second.step(msg.TimeoutNow(1, 2, 2))
    assert role_of(second) is Role.FOLLOWER
    assert second.status().abstains
    for _ in range(20):
        third.tick()
    settle(second, third)
    assert role_of(third) is Role.LEADER
    second.abstain(undo=True)
    assert not second.status().abstains
    for _ in range(40):
        second.tick()
    assert role_of(second) is Role.PRE_CANDIDATE
    assert role_of(first) is Role.LEADER, "it has heard nothing of all this"


def test_a_leader_that_abstains_leads_until_it_has_handed_over() -> None:
    leader, second, third = make_group()
    leader.abstain()
    leader.propose([b"a"])
    settle(leader, second, third)
    assert role_of(leader) is Role.LEADER
    leader.transfer_leadership(2)
    settle(leader, second, third)
    assert [role_of(node) for node in (leader, second)] == [Role.FOLLOWER, Role.LEADER]


def test_a_candidate_that_abstains_gives_it_up() -> None:
    node = make_node()
    node.campaign()
    node.abstain()
    node.step(msg.PreVoteResponse(2, 1, 1, 2, granted=True))
    assert role_of(node) is Role.FOLLOWER


def test_who_abstains_stands_in_the_end_when_the_others_cannot_win() -> None:
    _dead, second, third = make_group()
    second.abstain()
    second.state.log.append([Entry(2, second.state.log.last_index + 1, EntryKind.DATA, b"a")])
    work(second)
    for _ in range(3):
        for _ in range(20):
            third.tick()
        settle(second, third)
    assert role_of(third) is not Role.LEADER, "its log is the shorter one"
    for _ in range(100):
        second.tick()
    settle(second, third)
    assert role_of(second) is Role.LEADER
