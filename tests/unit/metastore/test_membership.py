"""Operations on the group."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, NotLeader, OutcomeUnknown, Unavailable
from stele.metastore import events as e
from stele.raft import AddLearner, Remove
from tests.unit.metastore.node_group import Group


def test_a_newcomer_becomes_a_learner_then_a_voter() -> None:
    group = Group(3)
    leader = group.elect()
    group.add(4)
    group.ask(1, e.JoinGroup(9, 4, "host-4"))
    assert leader.node.core.membership.learners == (4,)
    assert 9 not in leader.answers
    group.tick(5)
    assert leader.answers[9].voters == (1, 2, 3, 4)
    assert group.hosts[4].node.core.membership.addresses[4] == "host-4"


def test_a_newcomer_that_cannot_be_reached_stays_a_learner() -> None:
    group = Group(3)
    leader = group.elect()
    group.add(4)
    group.cut_off.add(4)
    group.ask(1, e.JoinGroup(9, 4, "host-4"))
    group.tick(20)
    assert leader.node.core.membership.voters == (1, 2, 3)
    assert 9 not in leader.answers
    group.cut_off.clear()
    group.tick(5)
    assert leader.answers[9].voters == (1, 2, 3, 4)


def test_asking_to_join_again_answers_the_later_request() -> None:
    group = Group(1)
    leader = group.elect()
    group.add(2)
    leader.node.handle(e.JoinGroup(8, 2, "host-2"))
    leader.node.handle(e.JoinGroup(9, 2, "host-2"))
    group.tick(5)
    assert isinstance(leader.refusals[8], Unavailable)
    assert leader.answers[9].voters == (1, 2)
    group.ask(1, e.JoinGroup(10, 2, "host-2"))
    group.tick()
    assert leader.answers[10].voters == (1, 2)


def test_a_step_is_answered_when_it_is_committed() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, e.ChangeMembership(5, Remove(3)))
    assert leader.answers[5].voters == (1, 2)


def test_a_step_that_makes_no_sense_is_refused() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, e.ChangeMembership(5, AddLearner(2)))
    assert 5 in leader.refusals
    group.ask(2, e.ChangeMembership(6, Remove(3)))
    assert isinstance(group.hosts[2].refusals[6], NotLeader)
    group.ask(2, e.JoinGroup(7, 4, "host-4"))
    refusal = group.hosts[2].refusals[7]
    assert isinstance(refusal, NotLeader)
    assert refusal.leader == "host-1"


def test_with_leadership_goes_the_knowledge_of_a_step() -> None:
    group = Group(3)
    leader = group.elect()
    group.cut_off.add(1)
    group.ask(1, e.ChangeMembership(5, Remove(3)))
    group.tick(25)
    assert isinstance(leader.refusals[5], OutcomeUnknown)


@pytest.mark.parametrize("target", [0, 2])
def test_leadership_goes_where_it_is_sent(target: int) -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, e.TransferLeadership(4, target))
    group.tick()
    assert not leader.node.leads
    assert leader.answers[4] == leader.node.core.leader
    assert leader.answers[4] == target or target == 0


def test_a_transfer_to_nobody_is_refused() -> None:
    group = Group(1)
    leader = group.elect()
    group.ask(1, e.TransferLeadership(4))
    assert isinstance(leader.refusals[4], Unavailable)
    group.ask(1, e.TransferLeadership(5, 77))
    assert isinstance(leader.refusals[5], InvalidArgument)


def test_a_transfer_that_does_not_succeed_is_given_up() -> None:
    group = Group(3)
    leader = group.elect()
    group.cut_off.add(2)
    group.ask(1, e.TransferLeadership(4, 2))
    group.tick(group.settings.transfer_patience_ticks + 1)
    assert isinstance(leader.refusals[4], Unavailable)
    assert leader.node.leads


def test_a_later_transfer_replaces_an_earlier_one() -> None:
    group = Group(3)
    leader = group.elect()
    group.cut_off.add(2)
    group.ask(1, e.TransferLeadership(4, 2))
    group.ask(1, e.TransferLeadership(5, 3))
    group.tick()
    assert isinstance(leader.refusals[4], Unavailable)
    assert leader.answers[5] == 3


def test_leadership_that_is_where_it_is_sent_is_a_success() -> None:
    """The request was sent again, and the first one has done its work."""
    group = Group(3)
    leader = group.elect()
    group.ask(1, e.TransferLeadership(4, 1))
    assert leader.answers[4] == 1
    group.ask(1, e.TransferLeadership(5, 2))
    group.tick()
    assert leader.answers[5] == 2


def test_a_leader_that_is_drained_hands_over_and_does_not_come_back() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, e.Drain(4))
    group.tick()
    successor = leader.answers[4]
    assert successor in (2, 3)
    group.cut_off.add(successor)
    group.tick(60)
    assert not leader.node.leads
    assert group.hosts[5 - successor].node.leads, "the drained node has voted for the third"


def test_a_drained_node_that_had_to_lead_hands_over_when_somebody_can() -> None:
    group = Group(3)
    group.elect()
    group.ask(2, e.Drain(4))
    group.ask(3, e.Drain(5))
    group.cut_off.add(1)
    group.tick(300)
    (last,) = [node for node, host in group.hosts.items() if host.node.leads]
    assert last in (2, 3), "though drained, somebody leads"
    group.cut_off.clear()
    group.tick(100)
    assert [node for node, host in group.hosts.items() if host.node.leads] == [1]


def test_a_follower_that_is_drained_is_asked_last_to_lead() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(2, e.Drain(4))
    assert group.hosts[2].answers[4] == 1
    group.ask(1, e.TransferLeadership(5, 2))
    group.tick(group.settings.transfer_patience_ticks + 1)
    assert "drained" in str(leader.refusals[5])
    group.ask(1, e.Drain(6))
    group.tick()
    assert leader.answers[6] == 3


def test_a_drain_is_taken_back() -> None:
    group = Group(3)
    group.elect()
    group.ask(2, e.Drain(4))
    group.ask(2, e.Drain(5, undo=True))
    group.ask(1, e.TransferLeadership(6, 2))
    group.tick()
    assert group.hosts[2].node.leads


def test_the_only_voter_cannot_be_drained() -> None:
    group = Group(1)
    leader = group.elect()
    group.ask(1, e.Drain(4))
    assert isinstance(leader.refusals[4], InvalidArgument)
    assert not leader.node.core.status().abstains
