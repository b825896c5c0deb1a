from __future__ import annotations

import pytest

from stele.errors import NotLeader, Throttled
from stele.raft import RaftConfig, ReadState, Role
from stele.raft import messages as msg
from tests.unit.raft.group import make_group, make_node, messages_of, settle, work


def test_many_reads_cost_one_round() -> None:
    leader, second, third = make_group()
    for context in range(50):
        leader.read_index(context)
    sent = messages_of(work(leader))
    assert [type(m) for m in sent] == [msg.Heartbeat] * 2
    second.step(sent[0])
    for answer in messages_of(work(second)):
        leader.step(answer)
    (ready,) = work(leader)
    assert ready.read_states == tuple(ReadState(context, 2) for context in range(50))
    assert third.state.log.commit == 2


def test_a_follower_serves_its_own_reads() -> None:
    leader, follower, third = make_group()
    follower.read_index(5)
    (request,) = messages_of(work(follower))
    assert isinstance(request, msg.ReadRequest)
    leader.step(request)
    for beat in messages_of(work(leader)):
        if beat.target == 3:
            third.step(beat)
    for answer in messages_of(work(third)):
        leader.step(answer)
    (response,) = messages_of(work(leader))
    follower.step(response)
    (ready,) = work(follower)
    assert ready.read_states == (ReadState(5, 2),)


def test_without_a_leader_there_is_nobody_to_ask() -> None:
    with pytest.raises(NotLeader):
        make_node().read_index(1)


def test_reads_of_one_origin_share_an_answer() -> None:
    leader, *followers = make_group()
    leader.step(msg.ReadRequest(2, 1, 2, 77, (1, 2)))
    leader.step(msg.ReadRequest(3, 1, 2, 88, (1,)))
    answers = [m for m in settle(leader, *followers) if isinstance(m, msg.ReadResponse)]
    assert answers == [
        msg.ReadResponse(1, 2, 2, 77, (1, 2), 2),
        msg.ReadResponse(1, 3, 2, 88, (1,), 2),
    ]


def test_waiting_reads_are_bounded() -> None:
    leader, follower, _ = make_group(config=RaftConfig(reads_waiting_max=2))
    for node in (leader, follower):
        node.read_index(1)
        node.read_index(2)
        with pytest.raises(Throttled, match="reads_waiting_max"):
            node.read_index(3)
    leader.step(msg.ReadRequest(2, 1, 2, 77, (9,)))
    assert [read.context for read in leader.state.reads.waiting] == [1, 2]


def test_a_follower_whose_questions_are_lost_may_ask_for_ever() -> None:
    leader, follower, third = make_group(config=RaftConfig(reads_waiting_max=4))
    for context in range(20):
        follower.read_index(context)
        work(follower)  # the request goes out, and is lost
    assert len(follower.state.forwarded.outstanding) == 4
    follower.read_index(20)
    settle(leader, follower, third)
    assert 20 not in follower.state.forwarded.outstanding, "the last one is answered"


def test_reads_asked_of_a_candidate_are_refused_and_of_a_deposed_leader_dropped() -> None:
    leader, follower, _ = make_group()
    follower.campaign()
    with pytest.raises(NotLeader):
        follower.read_index(1)
    leader.read_index(4)
    leader.step(msg.Heartbeat(3, 1, 9, 2, 0))
    ready = leader.ready()
    assert ready is not None
    assert ready.aborted_reads == (4,)


def test_a_request_for_a_deposed_leader_means_nothing() -> None:
    _, follower, _ = make_group()
    follower.step(msg.ReadRequest(3, 2, 2, 7, (1,)))
    assert follower.ready() is None


def test_a_group_of_one_serves_a_read_whose_round_a_heartbeat_began() -> None:
    """The read came before the leader's first entry was durable, and the tick right after that."""
    node = make_node(1, (1,))
    node.campaign()
    while node.state.role is not Role.LEADER:
        ready = node.ready()
        assert ready is not None
        node.persisted(ready.number)
    node.read_index(7)
    ready = node.ready()
    assert ready is not None
    assert not ready.read_states
    node.persisted(ready.number)
    for _ in range(node.state.config.heartbeat_ticks):
        node.tick()
    states = [state for ready in work(node) for state in ready.read_states]
    assert [state.context for state in states] == [7]
    node.read_index(8)
    assert [s.context for ready in work(node) for s in ready.read_states] == [8]
