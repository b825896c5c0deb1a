"""Who may do what, and who may say so."""

from __future__ import annotations

import pytest

from stele.client.metastore_admin import MetastoreAdmin
from stele.errors import InvalidArgument, NotLeader, PermissionDenied
from stele.metastore.access import expected_rules, stored_rules, told_rules
from stele.metastore.commands import AclRule, Grant
from stele.protocol import metastore as p
from stele.protocol.metastore_acl import AccessRule, SetAclRequest
from stele.protocol.metastore_values import Identity
from stele.rpc import Role
from tests.unit.metastore.cluster_support import Group, group_of


async def guarded(group: Group) -> tuple[MetastoreAdmin, MetastoreAdmin]:
    """An operator, and a client that has the right ``a`` for ``/jobs/``; rules are on."""
    operator, lead = group.client().admin, group.client(role=Role.CLIENT).admin
    await operator.grant("/", "admin/tester", "rwla")
    await operator.grant("/", "client/tester", "r")
    await operator.grant("/jobs/", "client/tester", "rwla")
    await operator.grant("/jobs/secret/", "client/boss", "rwla")
    await operator.switch_acl(enabled=True)
    return operator, lead


async def test_the_right_a_changes_the_rules_of_a_directory_and_below() -> None:
    async with group_of(1) as group:
        operator, lead = await guarded(group)
        await lead.grant("/jobs/", "client/worker", "rl")
        await lead.grant("/jobs/new/", "client/worker", "w")
        await lead.revoke("/jobs/", "client/worker", "l")
        rules = {found.directory: found.rules for found in (await operator.acl()).directories}
        assert rules["/jobs/"] == (
            AccessRule("client/tester", "rwla"),
            AccessRule("client/worker", "r"),
        )
        assert rules["/jobs/new/"] == (AccessRule("client/worker", "w"),)


async def test_who_has_it_sees_what_it_may_change_and_no_more() -> None:
    async with group_of(1) as group:
        _, lead = await guarded(group)
        seen = await lead.acl()
        assert seen.enabled
        assert [found.directory for found in seen.directories] == ["/jobs/"]
        for directory in ("/", "/other/", "/jobs/secret/", "/jobs/secret/more/"):
            with pytest.raises(PermissionDenied, match=f"may not change the rules of {directory}"):
                await lead.set_acl(directory, AccessRule("client/tester", "rwla"))
        with pytest.raises(PermissionDenied, match="switch-acl"):
            await lead.switch_acl(enabled=False)


async def test_it_can_be_taken_back() -> None:
    async with group_of(1) as group:
        operator, lead = await guarded(group)
        await operator.revoke("/jobs/", "client/tester", "a")
        with pytest.raises(PermissionDenied, match="may not change"):
            await lead.set_acl("/jobs/", AccessRule("client/tester", "rwla"))
        with pytest.raises(PermissionDenied, match="may not see access rules"):
            await lead.acl()


async def test_while_rules_are_off_operators_alone_make_them() -> None:
    async with group_of(1) as group:
        operator, lead = await guarded(group)
        await operator.switch_acl(enabled=False)
        with pytest.raises(PermissionDenied, match="with rules switched on"):
            await lead.set_acl("/jobs/", AccessRule("client/tester", "rwla"))
        with pytest.raises(PermissionDenied, match="with rules switched on"):
            await lead.acl()
        assert len((await operator.acl()).directories) == 3


async def test_the_leader_is_asked_and_not_one_whose_rules_may_be_old() -> None:
    async with group_of(2) as group:
        follower = next(address for address in group.servers if address != group.leader())
        request = SetAclRequest(Identity(7, 1), "/jobs/", ())
        transport = group.client(role=Role.CLIENT).transport
        with pytest.raises(NotLeader) as refused:
            await transport.call_at(follower, p.SET_ACL, request, timeout_s=20)
        assert refused.value.leader == group.leader()


@pytest.mark.parametrize(
    "caller", ["nonsense", "", "client", "client/", "/ada", "clients/ada", "**"]
)
def test_a_rule_names_somebody_who_can_be(caller: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a caller: that is role/name"):
        stored_rules([AccessRule(caller, "r")])
    old = (AclRule(caller, Grant.READ),)
    assert expected_rules([AccessRule(caller, "r")]) == old, "it may be there, to be replaced"


def test_rules_are_written_in_letters() -> None:
    written = (AccessRule("*", "r"), AccessRule("client/a/b", "rwla"), AccessRule("tablet/t1", ""))
    stored = stored_rules(written)
    assert [rule.grant for rule in stored] == [Grant.READ, Grant.ALL, Grant(0)]
    assert told_rules(stored) == written
    with pytest.raises(InvalidArgument, match="right 'x' is none of r, w, l, a"):
        stored_rules([AccessRule("*", "rx")])
