from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, NotLeader, Unavailable
from stele.raft import AddLearner, Remove, Role
from stele.raft import messages as msg
from tests.unit.raft.group import make_group, messages_of, settle, work


def test_leadership_goes_where_it_was_asked_to() -> None:
    nodes = make_group()
    nodes[0].transfer_leadership(3)
    settle(*nodes)
    assert [node.state.role for node in nodes] == [Role.FOLLOWER, Role.FOLLOWER, Role.LEADER]


def test_nothing_new_is_taken_meanwhile() -> None:
    leader, *_ = make_group()
    leader.transfer_leadership(2)
    with pytest.raises(Unavailable, match="node 2"):
        leader.propose([b"a"])
    with pytest.raises(Unavailable, match="node 2"):
        leader.propose_change(AddLearner(4))


def test_a_transfer_ends_after_an_election_timeout() -> None:
    leader, *_ = make_group()
    leader.transfer_leadership(2)
    for _ in range(9):
        leader.tick()
    assert leader.state.transfer_target == 2
    leader.tick()
    assert leader.state.transfer_target == 0


def test_another_target_takes_the_place_of_the_first() -> None:
    leader, *_ = make_group()
    leader.transfer_leadership(2)
    leader.transfer_leadership(2)
    leader.transfer_leadership(3)
    orders = [m.target for m in messages_of(work(leader)) if isinstance(m, msg.TimeoutNow)]
    assert orders == [2, 3]


def test_to_itself_there_is_nothing_to_do() -> None:
    leader, *_ = make_group()
    leader.transfer_leadership(1)
    assert leader.state.transfer_target == 0


def test_refusals() -> None:
    leader, follower, _ = make_group()
    with pytest.raises(InvalidArgument, match="node 9 is not a voter"):
        leader.transfer_leadership(9)
    with pytest.raises(NotLeader):
        follower.transfer_leadership(1)


def test_membership_stays_as_it_is_until_the_transfer_ends() -> None:
    leader, *_ = make_group()
    leader.transfer_leadership(2)
    with pytest.raises(Unavailable):
        leader.propose_change(Remove(2))
    assert leader.state.peers.keys() == {2, 3}
