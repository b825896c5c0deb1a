from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import Corruption, InvalidArgument
from stele.raft import HardState, Membership, RaftConfig, RaftNode, Role, StoredState, bootstrap
from stele.raft import messages as msg
from stele.raft.node import HANDLERS
from tests.unit.raft.group import make_group, make_node, role_of, settle, work


def test_ids_are_positive() -> None:
    with pytest.raises(InvalidArgument, match="node id 0"):
        RaftNode(0, RaftConfig(), StoredState(), lambda _: 0)


def test_a_node_does_not_start_from_nonsense() -> None:
    with pytest.raises(Corruption):
        make_node(stored=StoredState(HardState(1, 0, 9)))


def test_misrouted_messages_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="message for node 2 came to node 1"):
        make_node().step(msg.Heartbeat(3, 2, 1, 0, 0))


def test_a_report_for_a_ready_that_never_was_is_a_bug_of_the_host() -> None:
    with pytest.raises(AssertionError, match="never given out"):
        make_node().persisted(1)


def test_a_restarted_node_keeps_its_vote() -> None:
    stored = bootstrap(Membership((1, 2, 3)))
    hard = HardState(4, 3, 1)
    node = make_node(stored=StoredState(hard, stored.snapshot, stored.entries))
    assert (node.state.term, node.state.vote, node.state.role) == (4, 3, Role.FOLLOWER)
    (ready,) = work(node)
    assert ready.hard_state is None


def test_standing_is_for_voters_that_do_not_lead() -> None:
    leader, *_ = make_group()
    leader.campaign()
    assert leader.state.role is Role.LEADER
    stranger = make_node(9)
    stranger.campaign()
    assert stranger.state.role is Role.FOLLOWER


def test_every_message_has_a_place_in_some_role() -> None:
    placed = {kind for table in HANDLERS.values() for kind in table} | {msg.PreVoteRequest}
    assert placed == set(msg.Message.__args__)


def test_stale_terms_are_answered_where_it_helps() -> None:
    node = make_node(stored=StoredState(HardState(7), bootstrap(Membership((1, 2))).snapshot))
    node.step(msg.Heartbeat(2, 1, 3, 0, 5))
    node.step(msg.VoteRequest(2, 1, 3, 0, 0, transfer=False))
    node.step(msg.AppendAccepted(2, 1, 3, 0))
    ready = node.ready()
    assert ready is not None
    assert ready.messages == (
        msg.HeartbeatResponse(1, 2, 7, 0),
        msg.VoteResponse(1, 2, 7, granted=False),
    )


def test_a_late_report_does_not_make_a_leader_of_a_follower() -> None:
    node = make_node(voters=(1,))
    node.campaign()
    ready = node.ready()
    assert ready is not None
    node.step(msg.Heartbeat(2, 1, 5, 0, 0))
    node.persisted(ready.number)
    assert (node.state.role, node.state.term) == (Role.FOLLOWER, 5)


def test_a_report_for_an_older_term_is_no_vote() -> None:
    node = make_node(voters=(1,))
    node.campaign()
    first = node.ready()
    assert first is not None
    node.campaign()
    assert node.state.term == 3
    node.persisted(first.number)
    assert role_of(node) is Role.CANDIDATE
    work(node)
    assert role_of(node) is Role.LEADER


def test_snapshots_are_described_from_the_log() -> None:
    leader, *_ = make_group()
    assert leader.describe_snapshot(2).term == 2


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.integers(1, 5))
def test_all_replicas_apply_all_proposals_in_order(payloads: list[bytes], size: int) -> None:
    config = RaftConfig(append_bytes_max=64, inflight_bytes_max=128, committed_bytes_max=64)
    nodes = make_group(size, config)
    for payload in payloads:
        nodes[0].propose([payload])
    settle(*nodes)
    for node in nodes:
        log = node.state.log
        assert [entry.data for entry in log.slice(3, log.last_index, 1 << 20)] == payloads
        assert log.applied == log.commit == 2 + len(payloads)
        log.check_invariants()


def test_a_node_with_nothing_to_say_knows_it() -> None:
    nodes = [make_node(node) for node in (1, 2, 3)]
    nodes[0].campaign()
    settle(*nodes)
    assert not any(node.has_ready() for node in nodes)
    nodes[0].propose([b"x"])
    assert nodes[0].has_ready()
    settle(*nodes)
    assert not any(node.has_ready() for node in nodes)
    nodes[1].read_index(1)
    assert nodes[1].has_ready()
