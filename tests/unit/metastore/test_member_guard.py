"""A node that was removed serves nobody, and says who may."""

from __future__ import annotations

from typing import Any

import pytest

from stele.client.metastore_cluster import ClusterTransport
from stele.errors import NotLeader
from stele.metastore import events as e
from stele.metastore.server import NodeServer
from stele.protocol import metastore as p
from stele.protocol.metastore_values import Identity, KeyRange, Put
from stele.rpc.service import Unary
from tests.unit.metastore.cluster_support import Group, group_of


def told(group: Group) -> NodeServer:
    """A node that does not lead, and was told that it is removed."""
    address = next(address for address in group.servers if address != group.leader())
    server = group.servers[address]
    server.driver.tell(e.ToldRemoved(1_000, group.leader()))
    return server


async def test_every_way_of_asking_is_refused_but_status() -> None:
    async with group_of(2) as group:
        await group.client().put("/a", b"1")
        server = told(group)
        transport = group.client().transport
        assert isinstance(transport, ClusterTransport)
        calls: tuple[tuple[Unary[Any, Any], Any], ...] = (
            (p.GET, p.GetRequest("/a", serializable=True)),
            (p.EXECUTE, p.ExecuteRequest(Identity(77, 1), (Put("/a", b"2"),))),
            (p.KEEP_ALIVE, p.KeepAliveRequest(1, 1)),
            (p.STATUS, p.StatusRequest(leader=True)),
        )
        for method, request in calls:
            with pytest.raises(NotLeader, match="removed, as of index 1000") as refused:
                await transport.call_at(server.address, method, request, timeout_s=20)
            assert refused.value.leader == group.leader()
        stream = await transport.channel(server.address).stream(
            p.WATCH, p.WatchRequest(KeyRange("/a"))
        )
        with pytest.raises(NotLeader, match="removed"):
            await stream.next_reply()
        status = await group.client().admin.status(server.address)
        assert (status.role, status.removed_at) == (p.REMOVED, 1_000)


async def test_a_client_that_knows_no_other_node_finds_the_group() -> None:
    async with group_of(2) as group:
        server = told(group)
        ms = group.client(server.address)
        await ms.put("/a", b"1")
        found = await ms.get("/a", serializable=True)
        assert found is not None
        assert found.value == b"1"


async def test_a_member_is_asked_as_before() -> None:
    async with group_of(1) as group:
        ms = group.client()
        index = await ms.put("/a", b"1")
        watch = await ms.watch("/a", since=index - 1)
        assert (await anext(aiter(watch))).index == index
        await watch.close()
        assert (await ms.admin.status()).removed_at == 0
