"""Whole groups of nodes in one loop: real servers, a network and disks in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from stele.client.metastore_aio import AsyncMetastore
from stele.client.metastore_cluster import ClusterTransport
from stele.client.metastore_sequence import RequestNumbers, draw_client_id
from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.env.memory_network import MemoryNetwork
from stele.env.ports import Clock
from stele.env.real import SystemClock
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.member import MemberOptions, enter_group, found_group, open_member
from stele.metastore.node import NodeSettings
from stele.metastore.server import NodeServer, NodeServerOptions
from stele.metastore.state.machine import StateMachine
from stele.raft import RaftConfig
from stele.rpc import ClientOptions, Role
from tests.unit.rpc.support import memory_network

TICK_US = 20_000
"""An election takes a third of a second."""

OPTIONS = MemberOptions(raft=RaftConfig(election_ticks=10))
SHORT_LOG = replace(OPTIONS, node=NodeSettings(compact_after_entries=40, keep_entries=5))


class Group:
    """Nodes ``m1``, ``m2``, … and a client of all of them."""

    def __init__(self, options: MemberOptions = OPTIONS, clock: Clock | None = None) -> None:
        self.network: MemoryNetwork = memory_network()
        self.options = options
        self.forward = False
        self.clock = clock or SystemClock()
        self.disks: dict[str, MemoryFileSystem] = {}
        self.servers: dict[str, NodeServer] = {}
        self._clients: list[AsyncMetastore] = []
        self._draws = SeededRandom(3)

    async def found(self) -> NodeServer:
        """The first node."""
        self.disks["m1:1"] = MemoryFileSystem()
        found_group(self.disks["m1:1"], self._draws, "m1:1", self.options)
        server = self.start("m1:1")
        server.driver.node.core.campaign()
        server.wake()
        return server

    async def join(self) -> NodeServer:
        """One more node, until it votes."""
        address = f"m{len(self.disks) + 1}:1"
        self.disks[address] = MemoryFileSystem()
        cluster = next(iter(self.servers.values())).cluster
        identity = enter_group(self.disks[address], self._draws, cluster, self.options)
        server = self.start(address)
        await self.client(role=Role.METASTORE).admin.join(identity.node, address)
        return server

    def start(self, address: str) -> NodeServer:
        """Bring the node of a disk to life."""
        files = self.disks[address]
        values = MemoryKeyValues(files, "state.kv")
        member = open_member(files, self._draws, StateMachine(values), self.options)
        server = NodeServer(
            member,
            values,
            NodeServerOptions(listen=address, tick_us=TICK_US, forward=self.forward),
            clock=self.clock,
            random=self._draws,
            network=self.network,
        )
        server.start()
        self.servers[address] = server
        return server

    async def kill(self, address: str) -> None:
        """Let a node vanish; its disk forgets what was not synced."""
        await self.servers.pop(address).close(grace_s=0)
        self.disks[address] = self.disks[address].crash_image()

    def leader(self) -> str:
        """Who leads, as the nodes say."""
        (address,) = [a for a, server in self.servers.items() if server.driver.node.leads]
        return address

    async def settled_leader(self) -> str:
        """Who leads, once somebody does."""
        async with asyncio.timeout(20):
            while True:
                leading = [a for a, s in self.servers.items() if s.driver.node.leads]
                if len(leading) == 1:
                    return leading[0]
                await asyncio.sleep(0.005)

    def client(self, *addresses: str, role: Role = Role.ADMIN, **options: Any) -> AsyncMetastore:
        """A client of these nodes, or of all."""
        transport = ClusterTransport(
            addresses or tuple(self.servers),
            ClientOptions(role=role, name="tester", **options),
            clock=self.clock,
            random=self._draws,
            network=self.network,
        )
        self._clients.append(
            AsyncMetastore(transport, RequestNumbers(draw_client_id(self._draws)), "tester")
        )
        return self._clients[-1]

    async def close(self) -> None:
        """End everything."""
        for client in self._clients:
            await client.close()
        for server in self.servers.values():
            await server.close(grace_s=0)


@asynccontextmanager
async def group_of(
    count: int, options: MemberOptions = OPTIONS, clock: Clock | None = None
) -> AsyncIterator[Group]:
    """A group of so many nodes."""
    group = Group(options, clock)
    try:
        await group.found()
        await group.settled_leader()
        for _ in range(count - 1):
            await group.join()
        yield group
    finally:
        await group.close()
