"""What operators ask of a metastore: status, members, leadership, backup, quota, access rules."""

from __future__ import annotations

from collections.abc import Callable

from stele.client.metastore_sequence import RequestNumbers
from stele.client.metastore_transport import Transport
from stele.errors import AlreadyExists, NotFound
from stele.protocol.metastore import (
    CHANGE_MEMBERS,
    CLEAR_ALARM,
    JOIN,
    SET_ACL,
    SET_QUOTA,
    STATUS,
    SWITCH_ACL,
    TRANSFER,
    AccessRule,
    ChangeMembersRequest,
    ClearAlarmRequest,
    JoinRequest,
    MemberInfo,
    SetAclRequest,
    SetQuotaRequest,
    StatusRequest,
    StatusResponse,
    SwitchAclRequest,
    TransferRequest,
)
from stele.raft import AddLearner, Change, Promote, Relocate, Remove

CALL_S = 30.0

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
        return await self._transport.call_at(address, STATUS, StatusRequest(), timeout_s=CALL_S)

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

    async def set_acl(self, directory: str, *rules: AccessRule) -> int:
        """Replace the access rules of a directory; none removes them."""
        await self._sequence.be_born(self._transport, CALL_S)
        with self._sequence.next() as identity:
            request = SetAclRequest(identity, directory, rules)
            return (await self._transport.call(SET_ACL, request, timeout_s=CALL_S)).index

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
