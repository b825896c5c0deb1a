"""What operators ask for."""

from __future__ import annotations

import asyncio

import pytest

from stele.errors import Conflict, InvalidArgument, NotFound, OutOfSpace, PermissionDenied
from stele.protocol.metastore_acl import AccessRule
from stele.rpc import Role
from tests.unit.metastore.cluster_support import group_of


async def test_a_quota_stops_what_takes_space_and_nothing_else() -> None:
    async with group_of(1) as group:
        ms = group.client()
        await ms.put("/a", b"x" * 2_000)
        await ms.admin.set_quota(1_000)
        with pytest.raises(OutOfSpace):
            await ms.put("/b", b"x" * 2_000)
        assert (await ms.admin.status()).quota_bytes == 1_000
        assert await ms.delete("/a") == 1
        await ms.admin.set_quota(0)
        for node in (await ms.admin.status()).alarms:
            await ms.admin.clear_alarm(int(node))
        await ms.put("/b", b"x")


async def test_s5_access_rules_hold_by_directory() -> None:
    async with group_of(1) as group:
        admin = group.client()
        with pytest.raises(InvalidArgument, match="ADMIN"):
            await admin.admin.switch_acl(enabled=True)
        await admin.admin.set_acl("/", AccessRule("admin/tester", "rwla"))
        await admin.admin.set_acl("/open/", AccessRule("client/tester", "rw"))
        await admin.admin.switch_acl(enabled=True)
        user = group.client(role=Role.CLIENT)
        await user.put("/open/a", b"1")
        assert await user.get("/open/a") is not None
        for refused in (user.put("/a", b"1"), user.get("/a"), user.range("/"), user.watch("/")):
            with pytest.raises(PermissionDenied, match="client/tester"):
                await refused
        async with await user.session() as session:
            with pytest.raises(PermissionDenied, match="lock"):
                await session.lock("/open/a").acquire()
        await admin.put("/a", b"1")
        with pytest.raises(PermissionDenied):
            await user.admin.switch_acl(enabled=False)
        with pytest.raises(InvalidArgument, match="'z'"):
            await admin.admin.set_acl("/", AccessRule("*", "z"))


async def test_a_watch_ends_when_the_right_to_read_is_taken_back() -> None:
    async with group_of(1) as group:
        admin = group.client()
        await admin.admin.set_acl("/", AccessRule("admin/tester", "rwla"))
        await admin.admin.set_acl("/open/", AccessRule("client/tester", "r"))
        await admin.admin.switch_acl(enabled=True)
        user = group.client(role=Role.CLIENT)
        async with await user.watch("/open/") as watch:
            await admin.put("/open/a", b"1")
            assert (await anext(watch)).changes[0].value == b"1"
            await admin.admin.set_acl("/open/", AccessRule("admin/tester", "rw"))
            await admin.put("/open/a", b"2")
            with pytest.raises(PermissionDenied, match="client/tester"):
                await anext(watch)


async def test_a_learner_is_added_moved_and_removed() -> None:
    async with group_of(2) as group:
        ms = group.client()
        members = await ms.admin.add_learner(77, "nowhere:1")
        assert [m.is_voter for m in members if m.node == 77] == [False]
        members = await ms.admin.relocate(77, "elsewhere:1")
        assert [m.address for m in members if m.node == 77] == ["elsewhere:1"]
        assert 77 not in [m.node for m in await ms.admin.remove(77)]
        with pytest.raises(NotFound, match="77"):
            await ms.admin.remove(77)


async def test_a_leader_can_be_removed() -> None:
    async with group_of(3) as group:
        ms = group.client()
        (leader,) = [m.node for m in await ms.admin.members() if m.is_leader]
        left = await ms.admin.remove(leader)
        assert leader not in [m.node for m in left]
        assert len(left) == 2
        await ms.put("/after", b"1")


async def test_two_operators_do_not_undo_each_other() -> None:
    """Each reads the rules, changes its own line and writes them back: both lines are there."""
    async with group_of(3) as group:
        callers = [f"client/{number}" for number in range(8)]
        admins = [group.client().admin for _ in callers]
        await asyncio.gather(
            *(
                admin.grant("/a/", caller, "rl")
                for admin, caller in zip(admins, callers, strict=True)
            )
        )
        (found,) = (await admins[0].acl()).directories
        assert sorted(rule.caller for rule in found.rules) == callers
        await asyncio.gather(
            *(admin.revoke("/a/", caller) for admin, caller in zip(admins, callers, strict=True))
        )
        assert (await admins[0].acl()).directories == ()


async def test_rules_are_replaced_only_while_they_are_the_expected_ones() -> None:
    async with group_of(1) as group:
        admin = group.client().admin
        rule = AccessRule("client/a", "r")
        await admin.set_acl("/a/", rule, expected=())
        with pytest.raises(Conflict, match="changed meanwhile"):
            await admin.set_acl("/a/", expected=())
        await admin.set_acl("/a/", expected=(rule,))
        assert (await admin.acl()).directories == ()
        with pytest.raises(PermissionDenied):
            await group.client(role=Role.CLIENT).admin.acl()


async def test_a_node_that_is_drained_leads_no_more_until_that_is_undone() -> None:
    async with group_of(3) as group:
        ms = group.client()
        first = group.servers[await group.settled_leader()]
        leader = await ms.admin.drain(first.node)
        assert leader not in (0, first.node)
        assert (await ms.admin.status(first.address)).is_drained
        assert await ms.admin.drain(first.node) == leader, "it may be asked again"
        await ms.put("/a", b"1")
        assert await ms.admin.drain(first.node, undo=True) == leader
        assert not (await ms.admin.status(first.address)).is_drained
        assert await ms.admin.transfer(first.node) == first.node


async def test_who_is_no_member_cannot_be_drained() -> None:
    async with group_of(1) as group:
        ms = group.client()
        with pytest.raises(NotFound, match="77"):
            await ms.admin.drain(77)
        (only,) = group.servers.values()
        with pytest.raises(InvalidArgument, match="only voter"):
            await ms.admin.drain(only.node)
