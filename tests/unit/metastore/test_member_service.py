"""What a node of a group answers when it is asked for itself."""

from __future__ import annotations

import pytest

from stele.errors import AlreadyExists, NotFound, PermissionDenied
from stele.protocol.metastore_member import BOOTSTRAP, DRAIN, BootstrapRequest, DrainRequest
from stele.rpc import Role
from tests.unit.metastore.cluster_support import group_of


async def test_a_node_of_a_group_does_not_begin_again() -> None:
    async with group_of(1) as group:
        (address,) = group.servers
        with pytest.raises(AlreadyExists, match=group.servers[address].cluster):
            await group.client().admin.bootstrap(address)


async def test_a_drain_is_for_the_node_that_it_names() -> None:
    async with group_of(1) as group:
        (address,) = group.servers
        transport = group.client().transport
        with pytest.raises(NotFound, match="not 77"):
            await transport.call_at(address, DRAIN, DrainRequest(77), timeout_s=20)


async def test_only_operators_and_nodes_may_ask() -> None:
    async with group_of(1) as group:
        (address,) = group.servers
        transport = group.client(role=Role.CLIENT).transport
        with pytest.raises(PermissionDenied):
            await transport.call_at(address, DRAIN, DrainRequest(1), timeout_s=20)
        with pytest.raises(PermissionDenied):
            await transport.call_at(address, BOOTSTRAP, BootstrapRequest(), timeout_s=20)
