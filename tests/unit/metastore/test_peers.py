"""Connections to the other members."""

from __future__ import annotations

import pytest

from stele.env.memory import SeededRandom
from stele.env.ports import Network
from stele.errors import Unavailable
from stele.metastore.peers import HEARD_FROM_MAX, Peers
from stele.protocol.raft import DELIVER, Delivery
from stele.raft import Entry, EntryKind, Membership, Message
from stele.raft.messages import AppendRequest, Heartbeat
from stele.rpc import Context, Role, Server, ServerOptions
from stele.rpc.network import SocketNetwork
from tests.unit.rpc.support import memory_network, settle


def new_peers(lost: list[int], network: Network | None = None) -> Peers:
    return Peers(
        "cluster",
        1,
        "m1:1",
        random=SeededRandom(1),
        credentials=None,
        network=network or memory_network(),
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


async def test_what_is_for_one_member_shares_a_frame() -> None:
    network = memory_network()
    heard: list[tuple[Message, ...]] = []

    def deliver(_context: Context, delivery: Delivery) -> None:
        heard.append(delivery.messages)

    server = Server(
        [DELIVER.handled_by(deliver)],
        ServerOptions(role=Role.METASTORE, name="2"),
        network=network,
    )
    peers = new_peers([], network)
    peers.hear(2, server.listen("m2:1"))
    await peers.channel(2).connect()
    entry = Entry(1, 6, EntryKind.DATA, b"")
    append = AppendRequest(1, 2, 1, 5, 1, (entry,), 5)
    beat = Heartbeat(1, 2, 1, 5, 0)
    peers.send([append, beat])
    peers.send([beat])
    await settle()
    assert heard == [(append, beat), (beat,)]
    await peers.close()
    await server.close(0)


async def test_senders_are_remembered_up_to_a_number() -> None:
    peers = new_peers([])
    for node in range(10, 10 + 2 * HEARD_FROM_MAX):
        peers.hear(node, f"m{node}:1")
    with pytest.raises(Unavailable):
        peers.channel(10 + HEARD_FROM_MAX)
    await peers.close()


async def test_members_are_called_before_there_is_anything_to_say() -> None:
    """A follower's first word to another is that it stands for election: it must not be lost."""
    taken: list[Delivery] = []

    def deliver(_context: Context, delivery: Delivery) -> None:
        taken.append(delivery)

    network = memory_network()
    server = Server(
        [DELIVER.handled_by(deliver)],
        ServerOptions(role=Role.METASTORE, name="2"),
        network=network,
    )
    server.listen("m2:1")
    lost: list[int] = []
    peers = new_peers(lost, network)
    peers.follow(Membership((1, 2, 3), (), {1: "m1:1", 2: "m2:1"}))
    peers.stay_connected()
    await settle()
    peers.send([Heartbeat(1, 2, 1, 0, 0)])
    await settle()
    assert (len(taken), lost) == (1, [])
    await peers.close()
    await server.close(0)


async def test_a_member_whose_address_is_none_does_not_keep_the_others_from_being_called() -> None:
    network = SocketNetwork()
    server = Server([], ServerOptions(role=Role.METASTORE, name="3"), network=network)
    peers = new_peers([], network)
    peers.follow(Membership((1, 2, 3), (), {2: "nonsense", 3: server.listen("127.0.0.1:0")}))
    peers.stay_connected()
    await peers.channel(3).connect()
    assert not peers.channel(2).is_open
    await peers.close()
    await server.close(0)
