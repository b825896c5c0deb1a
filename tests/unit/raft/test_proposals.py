from __future__ import annotations

import pytest

from stele.errors import LimitExceeded, NotLeader, Throttled, Unavailable
from stele.raft import AddLearner, Membership, Promote, RaftConfig, ReadState, Remove, Role
from stele.raft.entries import ENTRY_OVERHEAD_BYTES
from tests.unit.raft.group import make_group, make_node, settle, work


def test_a_proposal_says_where_it_went() -> None:
    leader, *_ = make_group()
    made = leader.propose([b"a", b"b"])
    assert (made.term, made.first_index, made.last_index) == (2, 3, 4)
    assert leader.propose([]).last_index == 4


def test_all_or_none() -> None:
    leader, *_ = make_group(config=RaftConfig(entry_bytes_max=3))
    with pytest.raises(LimitExceeded, match="4 bytes"):
        leader.propose([b"abc", b"abcd"])
    assert leader.state.log.last_index == 2


SMALL = RaftConfig(entry_bytes_max=50, uncommitted_bytes_max=50 + ENTRY_OVERHEAD_BYTES)


def test_a_leader_without_a_quorum_fills_up_to_its_limit() -> None:
    leader, *_ = make_group(config=SMALL)
    with pytest.raises(Throttled, match="uncommitted_bytes_max 82"):
        leader.propose([b"x" * 50, b""])
    leader.propose([b"x" * 50])
    with pytest.raises(Throttled, match="82 bytes are uncommitted"):
        leader.propose([b""])
    assert leader.state.uncommitted_bytes == 50 + ENTRY_OVERHEAD_BYTES


def test_commits_make_room() -> None:
    nodes = make_group(config=SMALL)
    for _ in range(3):
        nodes[0].propose([b"x" * 50])
        settle(*nodes)
    assert nodes[0].state.uncommitted_bytes == 0


def test_a_new_leader_counts_what_it_inherited() -> None:
    leader, second, third = make_group()
    leader.propose([b"x" * 50])
    settle(leader, second)
    second.state.log.commit = 2
    for _ in range(12):
        second.tick()
        third.tick()
    settle(second, third)
    assert second.state.role is Role.LEADER
    assert second.state.uncommitted_bytes == 0


def test_followers_refuse() -> None:
    _, follower, _ = make_group()
    with pytest.raises(NotLeader):
        follower.propose([b"a"])
    with pytest.raises(NotLeader):
        follower.propose_change(Remove(3))


def test_a_change_holds_at_once() -> None:
    leader, *_ = make_group()
    made = leader.propose_change(AddLearner(4, "four:1"))
    assert leader.state.membership == Membership((1, 2, 3), (4,), {4: "four:1"})
    assert leader.state.peers.keys() == {2, 3, 4}
    assert made.first_index == made.last_index == 3


def test_reads_that_only_lacked_a_removed_voter_are_confirmed() -> None:
    leader, _ = make_group(2)
    leader.read_index(7)
    assert not any(ready.read_states for ready in work(leader))
    leader.propose_change(Remove(2))
    assert [read for ready in work(leader) for read in ready.read_states] == [ReadState(7, 2)]


def test_one_change_at_a_time() -> None:
    nodes = make_group()
    nodes[0].propose_change(AddLearner(4))
    with pytest.raises(Unavailable, match="change at 3"):
        nodes[0].propose_change(Remove(3))
    settle(*nodes)
    nodes[0].propose_change(Remove(3))
    assert nodes[0].state.membership.voters == (1, 2)


def test_no_change_before_an_entry_of_the_own_term_is_committed() -> None:
    leader, second, third = make_group()
    settle(leader, second, third)
    nodes = {1: make_node(1), 2: make_node(2)}
    nodes[1].campaign()
    for _ in range(20):
        if nodes[1].state.role is Role.LEADER:
            break
        for ready in work(nodes[1]):
            for message in (*ready.messages, *ready.messages_after_sync):
                if message.target == 2:
                    nodes[2].step(message)
        for ready in work(nodes[2]):
            for message in (*ready.messages, *ready.messages_after_sync):
                nodes[1].step(message)
    with pytest.raises(Unavailable, match="no entry of term 2"):
        nodes[1].propose_change(AddLearner(4))


def test_only_learners_that_caught_up_are_promoted() -> None:
    leader, second, third = make_group(config=RaftConfig(promotion_lag_entries_max=2))
    learner = make_node(4, voters=())
    leader.propose_change(AddLearner(4))
    settle(leader, second, third)
    with pytest.raises(Unavailable, match="3 entries behind"):
        leader.propose_change(Promote(4))
    leader.tick()
    settle(leader, second, third, learner)
    leader.propose([b"a", b"b", b"c"])
    with pytest.raises(Unavailable, match="3 entries behind"):
        leader.propose_change(Promote(4))
    settle(leader, second, third, learner)
    leader.propose_change(Promote(4))
    assert leader.state.membership.voters == (1, 2, 3, 4)


def test_a_learner_that_does_not_answer_is_refused_with_that_reason() -> None:
    leader, second, third = make_group()
    learner = make_node(4, voters=())
    leader.propose_change(AddLearner(4))
    settle(leader, second, third)
    with pytest.raises(Unavailable, match="what its log holds is not known yet"):
        leader.propose_change(Promote(4))
    for _ in range(30):
        leader.tick()
        settle(leader, second, third)
    with pytest.raises(Unavailable, match="answered none of the last 20 heartbeats"):
        leader.propose_change(Promote(4))
    leader.tick()
    settle(leader, second, third, learner)
    leader.propose_change(Promote(4))
    assert 4 in leader.state.membership.voters
