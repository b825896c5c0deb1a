"""A small group of nodes for unit tests: perfect network, perfect disks, no clock."""

from __future__ import annotations

from stele.raft import (
    Membership,
    Message,
    RaftConfig,
    RaftNode,
    Ready,
    Role,
    StoredState,
    bootstrap,
)
from stele.raft.state import Draw


def slowest_last(node: int) -> Draw:
    """Timeouts in the order of the ids."""
    return lambda bound: (node - 1) % bound


def make_node(
    node: int = 1,
    voters: tuple[int, ...] = (1, 2, 3),
    *,
    learners: tuple[int, ...] = (),
    config: RaftConfig | None = None,
    stored: StoredState | None = None,
) -> RaftNode:
    """A founding member, or a node with this state."""
    stored = stored or bootstrap(Membership(voters, learners))
    return RaftNode(node, config or RaftConfig(), stored, slowest_last(node))


def look(node: RaftNode) -> Ready | None:
    """What a node wants done; ``has_ready`` may promise too much, never too little."""
    promised = node.has_ready()
    ready = node.ready()
    assert promised or ready is None
    return ready


def work(node: RaftNode) -> list[Ready]:
    """Carry out all a node wants done, its writes at once; what it wanted."""
    done = []
    while (ready := look(node)) is not None:
        done.append(ready)
        node.persisted(ready.number)
        if ready.committed:
            node.applied(ready.committed[-1].index)
    return done


def messages_of(readys: list[Ready]) -> list[Message]:
    """All that these Readys send."""
    return [m for ready in readys for m in (*ready.messages, *ready.messages_after_sync)]


def settle(*nodes: RaftNode) -> list[Message]:
    """Deliver everything among these nodes until nobody has anything to say; all messages."""
    by_id = {node.state.id: node for node in nodes}
    sent: list[Message] = []
    while True:
        batch = [m for node in nodes for m in messages_of(work(node))]
        if not batch:
            return sent
        sent += batch
        for message in batch:
            if message.target in by_id:
                by_id[message.target].step(message)


def role_of(node: RaftNode) -> Role:
    """The role a node has now."""
    return node.state.role


def make_group(size: int = 3, config: RaftConfig | None = None) -> list[RaftNode]:
    """A group whose first node leads."""
    voters = tuple(range(1, size + 1))
    nodes = [make_node(node, voters, config=config) for node in voters]
    nodes[0].campaign()
    settle(*nodes)
    return nodes
