from __future__ import annotations

import pytest

from stele.errors import NotLeader
from stele.raft import Membership, bootstrap
from stele.raft.messages import HeartbeatResponse
from stele.raft.ready import ReadState
from tests.unit.raft.group import make_group, make_node


def test_a_ready_takes_everything_and_leaves_nothing() -> None:
    s = make_node().state
    before = s.has_output
    s.send(HeartbeatResponse(1, 2, 1, 0))
    s.read_states.append(ReadState(5, 1))
    s.aborted_reads.append(6)
    s.snapshots_wanted.append(3)
    assert (before, s.has_output) == (False, True)
    ready = s.take_ready(4, None, (), (), needs_sync=False)
    assert ready.number == 4
    assert ready.read_states == (ReadState(5, 1),)
    assert ready.aborted_reads == (6,)
    assert ready.snapshots_wanted == (3,)
    assert (len(ready.messages), len(ready.messages_after_sync)) == (1, 0)
    assert s.take_ready(5, None, (), (), needs_sync=False).messages == ()


def test_refusals_name_the_leader_when_one_is_known() -> None:
    stranger = make_node()
    with pytest.raises(NotLeader) as refusal:
        stranger.state.require_leader()
    assert refusal.value.leader is None
    leader, follower, _ = make_group()
    leader.state.require_leader()
    with pytest.raises(NotLeader) as refusal:
        follower.state.require_leader()
    assert refusal.value.leader is None, "it has not said where it is"
    follower.state.log.history.current = Membership((1, 2, 3), (), {1: "one:1"})
    with pytest.raises(NotLeader) as refusal:
        follower.state.require_leader()
    assert refusal.value.leader == "one:1"


def test_refusals_give_the_address_where_the_membership_has_one() -> None:
    stored = bootstrap(Membership((1, 2), (), {2: "two:7420"}))
    node = make_node(1, stored=stored)
    node.state.leader = 2
    with pytest.raises(NotLeader, match="two:7420"):
        node.state.require_leader()


def test_voters_are_those_of_the_newest_membership() -> None:
    assert make_node(1).state.is_voter
    assert not make_node(4, learners=(4,)).state.is_voter
