from __future__ import annotations

import msgspec

from stele.raft import PeerStatus, Status
from tests.unit.raft.group import make_group


def test_a_leader_shows_its_view_of_the_others() -> None:
    leader, *_ = make_group()
    leader.propose([b"a"])
    status = leader.status()
    assert (status.node, status.role, status.term, status.leader) == (1, "leader", 2, 1)
    assert (status.commit, status.applied, status.persisted) == (2, 2, 2)
    assert (status.first_index, status.last_index, status.uncommitted_bytes) == (1, 3, 33)
    assert status.peers[0] == PeerStatus(2, "replicate", 2, 3, 0, 0, recently_active=True)
    assert [peer.node for peer in status.peers] == [2, 3]


def test_a_follower_has_no_view_of_others() -> None:
    _, follower, _ = make_group()
    assert follower.status().peers == ()
    assert follower.status().vote == 1


def test_status_can_be_sent() -> None:
    leader, *_ = make_group()
    status = leader.status()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(status), type=Status) == status
