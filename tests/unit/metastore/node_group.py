"""A group of nodes without disks or networks: every instruction is carried out at once.

The state machine is the product's own, over the map in memory.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from stele.metastore import events as e
from stele.metastore.commands import OpenSession, encode_command
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.node import Node, NodeSettings
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import Identity
from stele.raft import (
    EntryKind,
    Membership,
    Message,
    RaftConfig,
    RaftNode,
    StoredState,
    bootstrap,
)

TICK_US = 100_000
CONFIG = RaftConfig(election_ticks=10, heartbeat_ticks=1)


class Host:
    """One node, and all that it said."""

    def __init__(self, node: int, stored: StoredState, settings: NodeSettings) -> None:
        core = RaftNode(node, CONFIG, stored, lambda bound: node % bound)
        self.machine = StateMachine(MemoryKeyValues())
        self.node = Node(core, settings, applied=0, sessions=())
        self.answers: dict[int, Any] = {}
        self.refusals: dict[int, Exception] = {}
        self.reads: dict[int, int] = {}
        self.taken: list[e.Instructions] = []
        self.now_us = 0
        self.holds_syncs = False
        """Nothing becomes durable while this is set."""

        self.unsynced: list[int] = []

    def tick(self, count: int = 1, step_us: int = TICK_US) -> None:
        for _ in range(count):
            self.now_us += step_us
            self.node.handle(e.Tick(self.now_us, self.now_us))

    def carry_out(self, todo: e.Instructions) -> tuple[Message, ...]:
        self.taken.append(todo)
        self.unsynced += [group.number for group in todo.persist]
        if todo.apply:
            effects = self.machine.apply(
                (entry.index, entry.data if entry.kind is EntryKind.DATA else b"")
                for entry in todo.apply
            )
            self.node.handle(e.Applied(todo.apply, effects))
        self.answers.update((answer.request, answer.value) for answer in todo.answers)
        self.refusals.update((refusal.request, refusal.error) for refusal in todo.refusals)
        for served in todo.reads:
            self.reads.update((request, served.index) for request in served.requests)
        if todo.sync_state:
            self.node.handle(e.StateSynced(self.machine.applied_index))
        if self.unsynced and not self.holds_syncs:
            self.sync()
        return todo.send

    def sync(self) -> None:
        self.node.handle(e.Persisted(self.unsynced[-1]))
        self.unsynced.clear()


class Group:
    """Nodes 1 to ``size``; messages arrive in order unless a node is cut off."""

    def __init__(self, size: int, settings: NodeSettings | None = None) -> None:
        self.settings = settings or NodeSettings()
        founders = Membership(
            tuple(range(1, size + 1)), (), {i: f"host-{i}" for i in range(1, size + 1)}
        )
        self.hosts = {
            node: Host(node, bootstrap(founders), self.settings) for node in founders.voters
        }
        self.cut_off: set[int] = set()
        self._mail: deque[Message] = deque()

    def add(self, node: int) -> Host:
        self.hosts[node] = Host(node, StoredState(), self.settings)
        return self.hosts[node]

    def settle(self) -> None:
        busy = True
        while busy:
            busy = False
            for host in self.hosts.values():
                while (todo := host.node.take()) is not None:
                    busy = True
                    self._mail.extend(host.carry_out(todo))
            while self._mail:
                message = self._mail.popleft()
                if not {message.source, message.target} & self.cut_off:
                    busy = True
                    self.hosts[message.target].node.handle(e.PeerMessage(message))

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            for host in self.hosts.values():
                host.tick()
            self.settle()

    def elect(self, node: int = 1) -> Host:
        """Let this node become the leader."""
        self.hosts[node].node.core.campaign()
        self.settle()
        assert self.hosts[node].node.leads
        return self.hosts[node]

    def ask(self, node: int, event: e.Event) -> None:
        self.hosts[node].node.handle(event)
        self.settle()


def open_session(request: int, ttl_us: int, client: int = 7) -> e.Write:
    command = OpenSession(Identity(client, request), ttl_us, "test", 0)
    return e.Write(request, encode_command(command))
