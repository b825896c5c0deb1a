"""Connections to the other members."""

from __future__ import annotations

import pytest

from stele.env.memory import SeededRandom
from stele.errors import Unavailable
from stele.metastore.peers import HEARD_FROM_MAX, Peers
from stele.raft import Membership
from stele.raft.messages import Heartbeat
from tests.unit.rpc.support import memory_network, settle


def new_peers(lost: list[int]) -> Peers:
    return Peers(
        "cluster",
        1,
        "m1:1",
        random=SeededRandom(1),
        credentials=None,
        network=memory_network(),
        unreachable=lost.append,
    )


async def test_what_cannot_be_sent_is_reported_and_dropped() -> None:
    lost: list[int] = []
    peers = new_peers(lost)
    peers.follow(Membership((1, 2, 3), (), {2: "m2:1"}))
    peers.send([Heartbeat(1, 2, 1, 0, 0), Heartbeat(1, 3, 1, 0, 0)])
    assert lost == [2, 3], "one is not connected yet, of the other nobody knows where it is"
    await settle()
    await peers.close()


async def test_a_node_knows_best_where_it_is() -> None:
    peers = new_peers([])
    peers.hear(2, "early:1")
    assert peers.channel(2).address == "early:1"
    peers.follow(Membership((1, 2, 3), (), {1: "m1:1", 2: "m2:1", 3: "m3:1"}))
    assert peers.channel(3).address == "m3:1"
    peers.hear(3, "moved:1")
    assert peers.channel(3).address == "moved:1"
    peers.follow(Membership((1,), (), {1: "m1:1"}))
    with pytest.raises(Unavailable, match="node 3"):
        peers.channel(3)
    await peers.close()


async def test_senders_are_remembered_up_to_a_number() -> None:
    peers = new_peers([])
    for node in range(10, 10 + 2 * HEARD_FROM_MAX):
        peers.hear(node, f"m{node}:1")
    with pytest.raises(Unavailable):
        peers.channel(10 + HEARD_FROM_MAX)
    await peers.close()
