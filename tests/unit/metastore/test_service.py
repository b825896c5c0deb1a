"""The methods of the service: declared, permitted, served."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, LimitExceeded, NotLeader, PermissionDenied
from stele.metastore.command_checks import VALUE_BYTES_MAX
from stele.protocol import metastore as p
from stele.protocol.metastore_values import Identity, KeyRange
from stele.rpc import Role
from tests.unit.metastore.cluster_support import group_of


def test_every_method_is_served() -> None:
    from tests.unit.metastore.embedded_support import Home

    served = {binding.method.full_name for binding in Home().node.bindings()}
    assert served == {method.full_name for method in p.METASTORE.methods()}


async def test_a_serializable_read_is_answered_by_a_node_without_a_leader() -> None:
    async with group_of(2) as group:
        ms = group.client()
        await ms.put("/a", b"1")
        leader = group.leader()
        (other,) = [address for address in group.servers if address != leader]
        await group.kill(leader)
        here = group.client(other)
        found = await here.transport.call_at(
            other, p.GET, p.GetRequest("/a", serializable=True), timeout_s=5
        )
        assert found.item is None or found.item.value == b"1"
        with pytest.raises(NotLeader):
            await here.transport.call_at(other, p.STATUS, p.StatusRequest(leader=True), timeout_s=5)


async def test_bad_requests_are_refused_before_they_reach_the_log() -> None:
    async with group_of(1) as group:
        ms = group.client()
        before = (await ms.admin.status()).last_index
        with pytest.raises(LimitExceeded):
            await ms.put("/a", b"x" * (VALUE_BYTES_MAX + 1))
        for path in ("", "a", "/a//b", "/a/../b", "/\N{SNOWMAN}"):
            with pytest.raises(InvalidArgument):
                await ms.put(path, b"1")
        with pytest.raises(InvalidArgument):
            await ms.range("/b", "/a")
        bad = p.OpenSessionRequest(Identity(0, 1), 1_000_000)
        with pytest.raises(InvalidArgument, match="client"):
            await ms.transport.call(p.OPEN_SESSION, bad, timeout_s=5)
        assert (await ms.admin.status()).last_index == before


async def test_operators_alone_change_the_group() -> None:
    async with group_of(1) as group:
        user = group.client(role=Role.CLIENT)
        for refused in (
            user.admin.remove(1),
            user.admin.transfer(),
            user.admin.join(5, "m5:1"),
            user.admin.set_quota(1),
            user.admin.snapshot(lambda _: None),
        ):
            with pytest.raises(PermissionDenied):
                await refused
        assert (await user.admin.status()).role == "leader"


async def test_a_page_ends_where_it_must_and_says_so() -> None:
    async with group_of(1) as group:
        ms = group.client()
        for number in range(4):
            await ms.put(f"/k/{number}", b"x" * 600_000)
        request = p.RangeRequest(KeyRange("/k/", "/k0"))
        page = await ms.transport.call(p.RANGE, request, timeout_s=5)
        assert page.more
        assert len(page.items) < 4
        assert len(await ms.range("/k/")) == 4
