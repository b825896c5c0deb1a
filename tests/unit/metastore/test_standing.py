"""Whether a node belongs to its group: what it is told, what it knows, and what it tells others."""

from __future__ import annotations

from stele.metastore.standing import Standing
from stele.raft import Entry, EntryKind, Membership, RaftNode
from stele.raft.messages import AppendRequest
from tests.unit.raft.group import make_node

ADDRESSES = {1: "m1:1", 2: "m2:1", 3: "m3:1"}


def receive(core: RaftNode, index: int, membership: Membership, *, commit: int) -> None:
    """The leader, node 1, sends the next entry."""
    entry = Entry(1, index, EntryKind.MEMBERSHIP, membership.encode())
    core.step(AppendRequest(1, core.status().node, 1, index - 1, 1, (entry,), commit))


def test_a_voter_that_is_told_so_is_out() -> None:
    standing = Standing(make_node(3), 3)
    assert standing.removed_at == 0
    standing.told(7, "m2:1")
    assert standing.removed_at == 7
    standing.told(9, "m1:1")
    assert standing.removed_at == 7, "it knows already"
    refusal = standing.refusal()
    assert "node 3 is no member of its group: it was removed, as of index 7" in str(refusal)
    assert refusal.leader == "m2:1"


def test_one_who_is_behind_sends_nobody_away() -> None:
    core = make_node(3)
    receive(core, 2, Membership((1, 2), (3,), ADDRESSES), commit=1)
    standing = Standing(core, 3)
    standing.told(1, "m2:1")
    assert standing.removed_at == 0


def test_who_is_added_again_is_in_again() -> None:
    core = make_node(3)
    standing = Standing(core, 3)
    standing.told(2, "m2:1")
    receive(core, 2, Membership((1, 2), (), {}), commit=2)
    standing.look()
    assert standing.removed_at == 2
    receive(core, 3, Membership((1, 2), (3,), ADDRESSES), commit=2)
    standing.look()
    assert standing.removed_at == 0
    standing.told(4, "m1:1")
    assert standing.removed_at == 4, "and out once more"


def test_its_own_log_tells_it_too() -> None:
    core = make_node(3)
    receive(core, 2, Membership((1, 2), (), {1: "m1:1", 2: "m2:1"}), commit=1)
    assert Standing(core, 3).removed_at == 0, "that is not decided"
    core.step(AppendRequest(1, 3, 1, 2, 1, (), 2))
    standing = Standing(core, 3)
    assert standing.removed_at == 2
    assert standing.refusal().leader == "m1:1"
    nameless = make_node(3)
    receive(nameless, 2, Membership((1, 2), (), {}), commit=2)
    assert Standing(nameless, 3).refusal().leader is None


def test_a_newcomer_is_not_out() -> None:
    newcomer = make_node(4)
    receive(newcomer, 2, Membership((1, 2, 3), (), {}), commit=2)
    assert Standing(newcomer, 4).removed_at == 0, "it has yet to hear that it is in"


def test_a_member_tells_strangers_and_nobody_else() -> None:
    core = make_node(2)
    standing = Standing(core, 2)
    assert standing.word_for(3) == 0
    receive(core, 2, Membership((1, 2), (), {}), commit=1)
    assert standing.word_for(3) == 0, "that is not decided"
    core.step(AppendRequest(1, 2, 1, 2, 1, (), 2))
    assert standing.word_for(3) == 2
    assert Standing(make_node(5), 5).word_for(9) == 0, "who is none itself has nothing to say"
