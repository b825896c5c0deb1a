from __future__ import annotations

from stele.raft import RaftConfig, Role
from stele.raft import messages as msg
from stele.raft.leadership import quorum_is_active
from tests.unit.raft.group import make_group, make_node, messages_of, settle, work


def beats(sent: list[msg.Message]) -> list[msg.Heartbeat]:
    return [m for m in sent if isinstance(m, msg.Heartbeat)]


def test_heartbeats_come_with_their_period() -> None:
    leader, *_ = make_group(config=RaftConfig(heartbeat_ticks=3))
    counts = []
    for _ in range(6):
        leader.tick()
        counts.append(len(beats(messages_of(work(leader)))))
    assert counts == [0, 0, 2, 0, 0, 2]


def test_a_heartbeat_commits_no_more_than_the_follower_has() -> None:
    leader, second, _third = make_group()
    leader.propose([b"a"])
    settle(leader, second)
    leader.tick()
    told = {m.target: m.commit for m in beats(messages_of(work(leader)))}
    assert told == {2: 3, 3: 2}


def test_voters_keep_a_leader_in_office_and_learners_do_not() -> None:
    nodes = [make_node(node, learners=(4,)) for node in (1, 2, 3, 4)]
    leader = nodes[0]
    leader.campaign()
    settle(*nodes)
    for progress in leader.state.peers.values():
        progress.recently_active = False
    leader.step(msg.HeartbeatResponse(4, 1, 2, 0))
    assert not quorum_is_active(leader.state)
    leader.step(msg.HeartbeatResponse(3, 1, 2, 0))
    assert quorum_is_active(leader.state)


def test_a_leader_alone_steps_down_after_two_checks() -> None:
    leader, *_ = make_group()
    for _ in range(19):
        leader.tick()
    assert leader.state.role is Role.LEADER
    leader.tick()
    assert (leader.state.role, leader.state.leader) == (Role.FOLLOWER, 0)


def test_a_group_of_one_needs_nobody() -> None:
    (leader,) = make_group(1)
    for _ in range(100):
        leader.tick()
    assert leader.state.role is Role.LEADER
    assert leader.ready() is None


def test_heartbeats_are_answered_without_waiting_for_the_disk() -> None:
    follower = make_node(2)
    follower.step(msg.AppendRequest(1, 2, 1, 1, 1, (), 1))
    follower.step(msg.Heartbeat(1, 2, 1, 1, 7))
    ready = follower.ready()
    assert ready is not None
    assert msg.HeartbeatResponse(2, 1, 1, 7) in ready.messages


def test_answers_of_strangers_mean_nothing() -> None:
    leader, *_ = make_group()
    leader.read_index(1)
    work(leader)
    leader.step(msg.HeartbeatResponse(9, 1, 2, 1))
    assert leader.ready() is None
