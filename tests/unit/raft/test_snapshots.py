from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, NotLeader
from stele.raft import Membership, RaftNode, Snapshot
from stele.raft import messages as msg
from stele.raft.progress import ProgressState
from tests.unit.raft.group import make_group, make_node, settle, work


def straggling_group() -> tuple[RaftNode, RaftNode, RaftNode]:
    """The third node misses entries that the leader has compacted away."""
    leader, second, third = make_group()
    leader.propose([b"a", b"b"])
    settle(leader, second)
    leader.compact(4)
    leader.tick()
    settle(leader, third)
    assert leader.state.peers[3].state is ProgressState.SNAPSHOT
    return leader, second, third


def test_an_image_brings_a_straggler_up() -> None:
    leader, second, third = straggling_group()
    message = leader.begin_snapshot(3, 4)
    assert message.snapshot == Snapshot(4, 2, Membership((1, 2, 3)))
    assert leader.state.peers[3].pending_snapshot == 4
    third.step(message)
    ready = third.ready()
    assert ready is not None
    assert ready.snapshot == message.snapshot
    assert ready.messages_after_sync == (msg.AppendAccepted(3, 1, 2, 4),)
    third.persisted(ready.number)
    leader.step(ready.messages_after_sync[0])
    leader.propose([b"c"])
    settle(leader, second, third)
    assert third.state.log.applied == 5


def test_a_failed_transfer_is_asked_for_again() -> None:
    leader, *_ = straggling_group()
    leader.begin_snapshot(3, 4)
    leader.report_snapshot(3, arrived=False)
    (ready,) = work(leader)
    assert ready.snapshots_wanted == (3,)


def test_nobody_gets_an_image_unasked() -> None:
    leader, second, _ = straggling_group()
    with pytest.raises(InvalidArgument, match="node 2 does not wait"):
        leader.begin_snapshot(2, 4)
    with pytest.raises(InvalidArgument, match="node 9 does not wait"):
        leader.begin_snapshot(9, 4)
    with pytest.raises(InvalidArgument, match="no snapshot at 3"):
        leader.begin_snapshot(3, 3)
    with pytest.raises(NotLeader):
        second.begin_snapshot(3, 4)
    leader.report_snapshot(2, arrived=True)
    leader.report_snapshot(9, arrived=True)
    assert leader.state.peers[2].state is ProgressState.REPLICATE


def test_old_images_change_nothing() -> None:
    follower = make_node(2)
    follower.step(msg.InstallSnapshot(1, 2, 1, Snapshot(1, 1, Membership((9,)))))
    assert follower.state.membership == Membership((1, 2, 3))
    ready = follower.ready()
    assert ready is not None
    assert ready.snapshot is None
    assert ready.messages == (msg.AppendAccepted(2, 1, 1, 1),)


def test_an_image_within_the_log_only_commits() -> None:
    follower = make_node(2)
    leader, *_ = make_group()
    leader.propose([b"a", b"b"])
    entries = leader.state.log.slice(2, 4, 1 << 20)
    follower.step(msg.AppendRequest(1, 2, 2, 1, 1, entries, 1))
    follower.step(msg.InstallSnapshot(1, 2, 2, Snapshot(3, 2, Membership((1, 2, 3)))))
    assert (follower.state.log.commit, follower.state.log.last_index) == (3, 4)
