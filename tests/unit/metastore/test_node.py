"""A node: writes, reads, renewals, leadership, disks, compaction, images."""

from __future__ import annotations

import pytest

from stele.errors import (
    InvalidArgument,
    LimitExceeded,
    NotLeader,
    OutcomeUnknown,
    SessionExpired,
    Throttled,
)
from stele.metastore import events as e
from stele.metastore.commands import Execute as ExecuteCommand
from stele.metastore.commands import Executed, encode_command
from stele.metastore.node import NodeSettings
from stele.protocol.metastore_values import Identity, Put
from stele.raft import Membership, Snapshot
from stele.raft.messages import AppendAccepted, AppendRequest, InstallSnapshot
from tests.unit.metastore.node_group import Group, open_session


def put(request: int, value: bytes = b"v") -> e.Write:
    command = ExecuteCommand(Identity(5, request), (Put(f"/k{request}", value),))
    return e.Write(request, encode_command(command))


def test_a_write_is_answered_by_what_the_state_machine_said() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, put(1))
    assert isinstance(leader.answers[1], Executed)
    assert all(host.machine.get("/k1") is not None for host in group.hosts.values())


def test_writes_of_one_turn_share_one_group() -> None:
    group = Group(1)
    leader = group.elect()
    leader.taken.clear()
    for request in range(1, 65):
        leader.node.handle(put(request))
    group.settle()
    sizes = [len(g.entries) for todo in leader.taken for g in todo.persist if g.entries]
    assert sizes == [64]
    assert len(leader.answers) == 64


def test_commands_that_came_together_are_answered_together() -> None:
    group = Group(3)
    leader = group.elect()
    payloads = tuple(put(number).payload for number in range(1, 4))
    leader.node.handle(put(4))
    group.ask(1, e.WriteMany(5, payloads))
    indices = [answer.index for answer in leader.answers[5]]
    assert indices == [leader.answers[4].index + step for step in (1, 2, 3)]
    assert all(host.machine.get("/k3") is not None for host in group.hosts.values())


def test_a_leader_answers_before_it_tells_the_others_of_the_commit() -> None:
    group = Group(3)
    leader = group.elect()
    leader.taken.clear()
    group.ask(1, put(1))
    applying = next(n for n, todo in enumerate(leader.taken) if todo.apply)
    assert not leader.taken[applying].send
    told = [m for todo in leader.taken[applying + 1 :] for m in todo.send]
    assert any(isinstance(m, AppendRequest) and not m.entries for m in told)


def test_only_what_somebody_waits_for_is_news() -> None:
    """A commit is told to the followers by the next turn, whenever that is."""
    group = Group(3)
    leader = group.elect()
    group.ask(1, put(1))
    node = leader.node

    def has_news() -> bool:
        return node.has_news

    node.handle(put(2))
    assert has_news()
    todo = node.take()
    assert todo is not None
    node.handle(e.Persisted(todo.persist[-1].number))
    assert not has_news(), "the own sync is not a majority"
    index = todo.persist[-1].entries[-1].index
    node.handle(e.PeerMessage(AppendAccepted(2, 1, node.core.term, index)))
    assert has_news()
    applying = node.take()
    assert applying is not None
    leader.carry_out(applying)
    assert [answer.request for answer in node.take_answers()] == [2]
    node.handle(e.PeerMessage(AppendAccepted(3, 1, node.core.term, index)))
    assert not has_news(), "the last acknowledgement changes nothing"
    assert has_news() < node.owes_news
    telling = node.take()
    assert telling is not None
    assert [m.commit for m in telling.send if isinstance(m, AppendRequest)] == [index, index]
    assert not node.core.owes_news()


def test_nothing_is_answered_before_the_own_disk_and_a_majority_have_it() -> None:
    group = Group(3)
    leader = group.elect()
    for host in group.hosts.values():
        host.holds_syncs = True
    group.ask(1, put(1))
    assert 1 not in leader.answers
    group.hosts[2].sync()
    group.settle()
    assert 1 not in leader.answers
    leader.sync()
    group.settle()
    assert 1 in leader.answers


def test_a_follower_acknowledges_after_its_sync_only() -> None:
    group = Group(3)
    group.elect()
    follower = group.hosts[2]
    follower.holds_syncs = True
    follower.taken.clear()
    group.ask(1, put(1))
    sent = [m for todo in follower.taken for m in todo.send]
    assert not any(isinstance(m, AppendAccepted) for m in sent)
    follower.taken.clear()
    follower.sync()
    group.settle()
    sent = [m for todo in follower.taken for m in todo.send]
    assert any(isinstance(m, AppendAccepted) for m in sent)


def test_a_follower_names_the_leader() -> None:
    group = Group(3)
    group.elect()
    group.ask(2, put(1))
    refusal = group.hosts[2].refusals[1]
    assert isinstance(refusal, NotLeader)
    assert refusal.leader == "host-1"


def test_an_entry_that_is_too_large_is_refused_alone() -> None:
    group = Group(1)
    leader = group.elect()
    leader.node.handle(e.Write(1, bytes(3 << 20)))
    leader.node.handle(put(2))
    group.settle()
    assert isinstance(leader.refusals[1], LimitExceeded)
    assert 2 in leader.answers
    group.ask(1, e.Write(3, bytes(3 << 20)))
    assert isinstance(leader.refusals[3], LimitExceeded)


def test_a_deposed_leader_does_not_know_what_becomes_of_its_writes() -> None:
    group = Group(3)
    old = group.elect()
    group.cut_off.add(1)
    group.ask(1, put(1))
    group.tick(25)
    assert isinstance(old.refusals[1], OutcomeUnknown)
    group.cut_off.clear()
    group.tick(5)
    assert all(host.machine.get("/k1") is None for host in group.hosts.values())


def test_a_read_at_any_member_waits_for_a_round_and_for_its_own_state() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, put(1))
    for node in (1, 2, 3):
        group.ask(node, e.Read(10 + node))
        host = group.hosts[node]
        assert host.reads[10 + node] <= host.machine.applied_index
        assert host.reads[10 + node] >= leader.answers[1].index


def test_a_leader_that_is_cut_off_serves_no_reads() -> None:
    group = Group(3)
    leader = group.elect()
    group.cut_off.add(1)
    group.ask(1, e.Read(1))
    assert 1 not in leader.reads
    group.tick(25)
    assert 1 not in leader.reads
    assert isinstance(leader.refusals[1], NotLeader)


def test_without_a_leader_reads_and_renewals_are_refused() -> None:
    group = Group(3)
    group.ask(1, e.Read(1))
    group.ask(1, e.KeepAlive(2, 7))
    assert isinstance(group.hosts[1].refusals[1], NotLeader)
    assert isinstance(group.hosts[1].refusals[2], NotLeader)


def test_a_followers_read_asks_again_when_its_message_was_lost() -> None:
    group = Group(3)
    group.elect()
    group.tick()
    group.cut_off.add(2)
    group.ask(2, e.Read(1))
    group.cut_off.clear()
    group.tick(group.settings.read_patience_ticks + 2)
    assert 1 in group.hosts[2].reads


def test_a_renewal_is_answered_with_the_ttl_after_a_round() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, open_session(1, ttl_us=900_000))
    session = leader.answers[1].session
    for round_number in range(10):
        group.tick(5)
        group.ask(1, e.KeepAlive(100 + round_number, session))
        assert leader.answers[100 + round_number] == 900_000
    group.tick(12)
    group.ask(1, e.KeepAlive(200, session))
    assert isinstance(leader.refusals[200], SessionExpired)


def test_a_leader_that_is_cut_off_renews_nothing() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, open_session(1, ttl_us=900_000))
    group.cut_off.add(1)
    group.ask(1, e.KeepAlive(2, leader.answers[1].session))
    assert 2 not in leader.answers
    group.tick(25)
    assert isinstance(leader.refusals[2], NotLeader)


def test_a_new_leader_gives_sessions_a_full_ttl() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, open_session(1, ttl_us=3_000_000))
    session = leader.answers[1].session
    group.tick(25)
    group.ask(1, e.TransferLeadership(2, 2))
    assert group.hosts[2].node.leads
    group.tick(25)
    assert len(group.hosts[2].machine.sessions()) == 1
    group.ask(2, e.KeepAlive(3, session))
    assert group.hosts[2].answers[3] == 3_000_000
    group.tick(40)
    assert group.hosts[2].machine.sessions() == ()


def test_a_forgotten_request_is_not_answered() -> None:
    group = Group(1)
    leader = group.elect()
    leader.node.handle(put(1))
    leader.node.handle(e.Read(2))
    leader.node.handle(e.Forget(1))
    leader.node.handle(e.Forget(2))
    group.settle()
    assert 1 not in leader.answers
    assert 2 not in leader.reads


def test_a_request_is_forgotten_wherever_it_is() -> None:
    group = Group(3)
    leader = group.elect()
    group.cut_off.add(1)
    group.ask(1, put(1))
    group.ask(1, e.Read(2))
    group.ask(1, e.Forget(1))
    group.ask(1, e.Forget(2))
    group.tick(25)
    assert not leader.refusals


def test_a_lost_disk_ends_the_node_and_tells_whoever_waits() -> None:
    group = Group(3)
    leader = group.elect()
    leader.holds_syncs = True
    group.cut_off.update((2, 3))
    group.ask(1, put(1))
    leader.node.handle(put(2))
    leader.node.handle(e.Read(3))
    leader.node.handle(e.StorageLost("EIO"))
    leader.taken.clear()
    group.settle()
    (todo,) = leader.taken
    assert todo.stop == "storage failed: EIO"
    assert not todo.send
    assert not todo.persist
    assert isinstance(leader.refusals[1], OutcomeUnknown)
    assert {2, 3} <= set(leader.refusals)
    group.ask(1, put(4))
    assert 4 not in leader.refusals
    assert leader.node.stopped is not None


def test_the_log_is_cut_when_the_state_is_durable_without_it() -> None:
    settings = NodeSettings(compact_after_entries=20, keep_entries=5)
    group = Group(1, settings)
    leader = group.elect()
    for request in range(1, 60):
        group.ask(1, put(request))
    cuts = [todo.cut_log for todo in leader.taken if todo.cut_log is not None]
    assert len(cuts) >= 2
    status = leader.node.status()
    assert status.first_index == cuts[-1].index + 1
    assert status.last_index - status.first_index >= 4


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="keep_entries"):
        NodeSettings(compact_after_entries=5, keep_entries=5)


def test_a_member_that_lacks_the_log_gets_an_image() -> None:
    settings = NodeSettings(compact_after_entries=20, keep_entries=5)
    group = Group(3, settings)
    leader = group.elect()
    group.cut_off.add(3)
    for request in range(1, 60):
        group.ask(1, put(request))
    group.cut_off.clear()
    leader.taken.clear()
    group.tick(3)
    assert [peer for todo in leader.taken for peer in todo.make_images] == [3]
    group.ask(1, e.ImageMade(3, leader.machine.applied_index))
    (image,) = [i for todo in leader.taken for i in todo.send_images]
    late = group.hosts[3]
    late.machine.replace(list(leader.machine.export()))
    late.holds_syncs = True
    late.taken.clear()
    group.ask(3, e.ImageArrived(image.message))
    (installed,) = [g.snapshot for todo in late.taken for g in todo.persist if g.snapshot]
    assert installed == image.message.snapshot
    late.holds_syncs = False
    late.node.handle(e.StateReplaced(installed.index, ((9, 1_000),)))
    late.sync()
    group.settle()
    assert late.node.applied == installed.index
    group.ask(1, put(100))
    group.tick()
    assert late.machine.get("/k100") is not None


def test_an_image_that_nobody_wants_any_more_is_dropped() -> None:
    group = Group(3)
    leader = group.elect()
    group.ask(1, e.ImageMade(2, leader.machine.applied_index))
    assert not any(todo.send_images for todo in leader.taken)
    group.ask(1, e.ImageSent(2, arrived=False))
    group.ask(1, e.PeerUnreachable(2))


def test_an_old_image_is_not_installed() -> None:
    group = Group(3)
    group.elect()
    group.ask(1, put(1))
    follower = group.hosts[2]
    follower.taken.clear()
    term = follower.node.core.term
    old = InstallSnapshot(1, 2, term, Snapshot(1, 1, Membership((1, 2, 3))))
    group.ask(2, e.ImageArrived(old))
    assert not any(g.snapshot for todo in follower.taken for g in todo.persist)


def test_a_full_disk_of_a_follower_is_reported_to_the_leader() -> None:
    group = Group(3)
    group.elect()
    follower = group.hosts[2]
    follower.taken.clear()
    group.ask(2, e.SpaceShort(2))
    assert [todo.report_space for todo in follower.taken if todo.report_space] == [1]


def test_more_than_may_be_uncommitted_is_refused_one_by_one() -> None:
    group = Group(3)
    leader = group.elect()
    group.cut_off.update((2, 3))
    for request in range(1, 80):
        leader.node.handle(put(request, bytes(1 << 20)))
    group.settle()
    assert leader.refusals
    assert all(isinstance(error, Throttled) for error in leader.refusals.values())
    assert len(leader.refusals) < 79
