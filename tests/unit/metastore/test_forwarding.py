"""Followers that pass requests on."""

from __future__ import annotations

import pytest

from stele.errors import NotLeader, PermissionDenied
from stele.protocol import metastore as p
from stele.protocol.metastore_acl import AccessRule
from stele.protocol.metastore_values import Identity, Put
from stele.rpc import Role
from tests.unit.metastore.cluster_support import Group, group_of


async def follower_that_forwards(group: Group) -> str:
    """A node that does not lead, and passes on what it cannot answer."""
    group.forward = True
    address = next(address for address in group.servers if address != group.leader())
    await group.kill(address)
    group.start(address)
    await group.client(address).put("/warm", b"1", timeout=20)
    return address


async def test_s19_a_follower_asks_the_leader_under_the_clients_own_id() -> None:
    async with group_of(3) as group:
        follower = await follower_that_forwards(group)
        here = group.client(follower).transport
        request = p.ExecuteRequest(Identity(77, 1, 0), (Put("/a", b"1"),))
        first = await here.call_at(follower, p.EXECUTE, request, timeout_s=10)
        again = await here.call_at(group.leader(), p.EXECUTE, request, timeout_s=10)
        assert again == first, "the same request, on another way"
        found = await here.call_at(follower, p.GET, p.GetRequest("/a"), timeout_s=10)
        assert found.item is not None
        assert found.item.version == 1
        with pytest.raises(NotLeader):
            await here.call_at(follower, p.STATUS, p.StatusRequest(leader=True), timeout_s=10)


async def test_the_caller_is_judged_and_not_the_follower() -> None:
    async with group_of(3) as group:
        follower = await follower_that_forwards(group)
        admin = group.client()
        await admin.admin.set_acl("/", AccessRule("admin/tester", "rwla"))
        await admin.admin.switch_acl(enabled=True)
        user = group.client(follower, role=Role.CLIENT).transport
        request = p.ExecuteRequest(Identity(78, 1, 0), (Put("/a", b"1"),))
        with pytest.raises(PermissionDenied, match="client/tester"):
            await user.call_at(follower, p.EXECUTE, request, timeout_s=10)
        with pytest.raises(PermissionDenied):
            await user.call_at(follower, p.TRANSFER, p.TransferRequest(), timeout_s=10)
