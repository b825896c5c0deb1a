"""What operators ask of a metastore: status, members, leadership, backup, quota, access rules."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from stele.client.metastore_sequence import RequestNumbers
from stele.client.metastore_transport import Transport
from stele.errors import AlreadyExists, Conflict, NotFound, RetryLater
from stele.protocol.metastore import (
    CHANGE_MEMBERS,
    CLEAR_ALARM,
    GET_ACL,
    JOIN,
    SET_ACL,
    SET_QUOTA,
    STATUS,
    SWITCH_ACL,
    TRANSFER,
    ChangeMembersRequest,
    ClearAlarmRequest,
    JoinRequest,
    MemberInfo,
    SetQuotaRequest,
    StatusRequest,
    StatusResponse,
    TransferRequest,
)
from stele.protocol.metastore_acl import (
    AccessRule,
    AclResponse,
    GetAclRequest,
    SetAclRequest,
    SwitchAclRequest,
)
from stele.protocol.metastore_member import (
    BOOTSTRAP,
    DRAIN,
    BootstrapRequest,
    BootstrapResponse,
    DrainRequest,
)
from stele.raft import AddLearner, Change, Promote, Relocate, Remove

CALL_S = 30.0

RIGHTS = "rwla"
"""Read, write, lock, administer."""

ONE_NODE_S = 5.0
"""A node that says nothing for so long is in a bad state, and that is the answer."""

DRAIN_ATTEMPTS = 5
"""Of a leader to hand over; each takes an election timeout or two, and asks another voter first."""

JOIN_S = 600.0
"""A newcomer has to fetch the whole state before it may vote."""


class MetastoreAdmin:
    """``AsyncMetastore.admin``."""

    def __init__(self, transport: Transport, sequence: RequestNumbers) -> None:
        self._transport = transport
        self._sequence = sequence

    async def status(self, address: str | None = None) -> StatusResponse:
        """How a node is: the one that leads, or the one at an address."""
        if address is None:
            return await self._transport.call_nearest(STATUS, StatusRequest(), timeout_s=CALL_S)
        return await self._transport.call_at(address, STATUS, StatusRequest(), timeout_s=ONE_NODE_S)

    async def members(self) -> tuple[MemberInfo, ...]:
        """The members of the group, as the leader knows them."""
        leader = await self._transport.call(STATUS, StatusRequest(leader=True), timeout_s=CALL_S)
        return leader.members

    async def add_learner(self, node: int, address: str) -> tuple[MemberInfo, ...]:
        """Let a newcomer receive the log without a vote."""
        return await self._change(AddLearner(node, address))

    async def promote(self, node: int) -> tuple[MemberInfo, ...]:
        """Give a learner that has caught up a vote."""
        return await self._change(Promote(node))

    async def remove(self, node: int) -> tuple[MemberInfo, ...]:
        """Take a member out of the group for good."""
        return await self._change(Remove(node))

    async def relocate(self, node: int, address: str) -> tuple[MemberInfo, ...]:
        """Tell the group that a member listens elsewhere now."""
        return await self._change(Relocate(node, address))

    async def join(self, node: int, address: str) -> tuple[MemberInfo, ...]:
        """Make a node a voter: a learner first, until it has caught up. May be repeated."""
        request = JoinRequest(node, address)
        return (await self._transport.call(JOIN, request, timeout_s=JOIN_S)).members

    async def transfer(self, target: int = 0) -> int:
        """Hand leadership to a voter, or to the one that is furthest; who leads now."""
        request = TransferRequest(target)
        return (await self._transport.call(TRANSFER, request, timeout_s=CALL_S)).leader

    async def drain(self, node: int, *, undo: bool = False) -> int:
        """Let a node leave leading to others until it starts again, or with ``undo`` no longer; who
        leads now. It votes and holds all data as before."""
        found = [member for member in await self.members() if member.node == node]
        if not found:
            raise NotFound(f"node {node} is not a member of the group")
        request = DrainRequest(node, undo)
        for _ in range(DRAIN_ATTEMPTS - 1):
            with suppress(RetryLater):
                return await self._drain_at(found[0].address, request)
        return await self._drain_at(found[0].address, request)

    async def _drain_at(self, address: str, request: DrainRequest) -> int:
        return (await self._transport.call_at(address, DRAIN, request, timeout_s=ONE_NODE_S)).leader

    async def bootstrap(self, address: str, *join: str) -> BootstrapResponse:
        """Tell a node that waits for it to found a group, or to join the one at ``join``."""
        request = BootstrapRequest(join)
        return await self._transport.call_at(address, BOOTSTRAP, request, timeout_s=CALL_S)

    async def snapshot(self, write: Callable[[bytes], object]) -> int:
        """Hand a copy of the whole state to ``write``, piece by piece; the index it is of."""
        return await self._transport.backup(write)

    async def clear_alarm(self, node: int) -> int:
        """A node's disk has room again: take writes, unless another one is full."""
        await self._sequence.be_born(self._transport, CALL_S)
        with self._sequence.next() as identity:
            request = ClearAlarmRequest(identity, node)
            return (await self._transport.call(CLEAR_ALARM, request, timeout_s=CALL_S)).index

    async def set_quota(self, limit_bytes: int) -> int:
        """The most bytes of keys, values and history; 0 for no limit."""
        await self._sequence.be_born(self._transport, CALL_S)
        with self._sequence.next() as identity:
            request = SetQuotaRequest(identity, limit_bytes)
            return (await self._transport.call(SET_QUOTA, request, timeout_s=CALL_S)).index

    async def acl(self) -> AclResponse:
        """The access rules that the caller may change, all of them for an operator, and whether
        they count."""
        return await self._transport.call(GET_ACL, GetAclRequest(), timeout_s=CALL_S)

    async def set_acl(
        self, directory: str, *rules: AccessRule, expected: tuple[AccessRule, ...] | None = None
    ) -> int:
        """Replace the access rules of a directory; none removes them. With ``expected`` only
        while it has those, else ``Conflict``."""
        await self._sequence.be_born(self._transport, CALL_S)
        with self._sequence.next() as identity:
            request = SetAclRequest(identity, directory, rules, expected)
            return (await self._transport.call(SET_ACL, request, timeout_s=CALL_S)).index

    async def grant(self, directory: str, caller: str, rights: str) -> int:
        """Allow a caller something in a directory, beside what it may already."""
        return await self._change_rights(directory, caller, lambda held: held + rights)

    async def revoke(self, directory: str, caller: str, rights: str = RIGHTS) -> int:
        """Take rights back, all of them unless said otherwise; from a rule of this directory."""

        def without(held: str) -> str:
            return "".join(letter for letter in held if letter not in rights)

        return await self._change_rights(directory, caller, without)

    async def _change_rights(
        self, directory: str, caller: str, change: Callable[[str], str]
    ) -> int:
        """Read, change, write; again if somebody else was faster."""
        while True:
            known = {found.directory: found.rules for found in (await self.acl()).directories}
            before = known.get(directory, ())
            held = "".join(rule.rights for rule in before if rule.caller == caller)
            kept = tuple(rule for rule in before if rule.caller != caller)
            rights = "".join(sorted(set(change(held)), key=RIGHTS.find))
            after = (*kept, AccessRule(caller, rights)) if rights else kept
            with suppress(Conflict):
                return await self.set_acl(directory, *after, expected=before)

    async def switch_acl(self, *, enabled: bool) -> int:
        """Turn access rules on or off."""
        await self._sequence.be_born(self._transport, CALL_S)
        with self._sequence.next() as identity:
            request = SwitchAclRequest(identity, enabled)
            return (await self._transport.call(SWITCH_ACL, request, timeout_s=CALL_S)).index

    async def _change(self, change: Change) -> tuple[MemberInfo, ...]:
        """One step. It has no identity in the log, so one that was sent again may find itself
        done: a leader that removes itself cannot answer."""
        before = await self.members()
        request = ChangeMembersRequest(change)
        try:
            return (await self._transport.call(CHANGE_MEMBERS, request, timeout_s=CALL_S)).members
        except (NotFound, AlreadyExists):
            members = await self.members()
            if _roster(members) == _roster(before):
                raise
            return members


def _roster(members: tuple[MemberInfo, ...]) -> set[tuple[int, bool]]:
    return {(member.node, member.is_voter) for member in members}
