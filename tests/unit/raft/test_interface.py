from __future__ import annotations

import inspect

from stele.raft import NOBODY, RaftCore, RaftNode, Role
from tests.unit.raft.group import make_node


def methods(kind: type) -> dict[str, inspect.Signature]:
    """The public methods of a class, with their signatures."""
    return {
        name: inspect.signature(member, eval_str=True)
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_node_is_a_core() -> None:
    core: RaftCore = make_node()
    core.tick()
    assert (core.role, core.term, core.leader) == (Role.FOLLOWER, 1, NOBODY)
    assert core.membership == core.status().membership
    assert (core.membership_index, core.removed_at, core.commit) == (1, 0, 1)


def test_the_node_offers_exactly_what_the_port_asks_for() -> None:
    assert methods(RaftNode) == methods(RaftCore)


def test_every_method_of_the_port_is_explained() -> None:
    assert all(getattr(RaftCore, name).__doc__ for name in methods(RaftCore))
