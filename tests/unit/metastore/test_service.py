"""The methods of the service: declared, permitted, served."""

from __future__ import annotations

from typing import Any

import pytest

from stele.client.metastore_inline import InlineRunner
from stele.errors import (
    InvalidArgument,
    LimitExceeded,
    NotLeader,
    PermissionDenied,
    SessionExpired,
)
from stele.metastore.command_checks import VALUE_BYTES_MAX
from stele.metastore.embedded import HERE
from stele.protocol import metastore as p
from stele.protocol.metastore_member import MEMBER
from stele.protocol.metastore_values import Delete, Identity, KeyRange, Put
from stele.rpc import Role
from stele.rpc.wire_errors import decode_error
from tests.unit.metastore.cluster_support import group_of
from tests.unit.metastore.embedded_support import Home


def test_every_method_is_served() -> None:
    served = {binding.method.full_name for binding in Home().node.bindings()}
    methods = (*p.METASTORE.methods(), *MEMBER.methods())
    assert served == {method.full_name for method in methods}


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


async def test_each_of_many_requests_is_carried_out_or_refused_by_itself() -> None:
    async with group_of(1) as group:
        ms = group.client()
        born = await ms.index()

        def request(number: int, *operations: Put | Delete) -> p.ExecuteRequest:
            return p.ExecuteRequest(Identity(77, number, 0, born), operations)

        requests = (
            request(1, Put("nonsense", b"")),
            request(2, Put("/a", b"1")),
            request(3, Put("/b", b"2", session=999)),
            request(4, Delete("/a")),
            request(5, Put("/c", b"x" * (VALUE_BYTES_MAX + 1))),
        )
        many = p.ExecuteManyRequest(requests)
        answers = await ms.transport.call(p.EXECUTE_MANY, many, timeout_s=5)
        assert [answer is not None for answer in answers.answers] == [
            False,
            True,
            False,
            True,
            False,
        ]
        errors = [type(decode_error(refusal)) for refusal in answers.refusals]
        assert errors == [InvalidArgument, SessionExpired, LimitExceeded]
        again = await ms.transport.call(p.EXECUTE_MANY, many, timeout_s=5)
        assert again.answers == answers.answers
        only_bad = p.ExecuteManyRequest(requests[:1])
        assert (await ms.transport.call(p.EXECUTE_MANY, only_bad, timeout_s=5)).answers == (None,)


async def test_many_keys_are_of_one_index_and_as_many_as_fit() -> None:
    async with group_of(1) as group:
        ms = group.client()
        for number in range(4):
            await ms.put(f"/k/{number}", b"x" * 600_000)
        keys = ("/nothing", "/k/0", "/k/1", "/k/2")
        found = await ms.transport.call(p.GET_MANY, p.GetManyRequest(keys), timeout_s=5)
        assert found.index == await ms.index()
        assert [item and item.key for item in found.items] == [None, "/k/0", "/k/1"]
        with pytest.raises(InvalidArgument, match="not a path"):
            await ms.transport.call(p.GET_MANY, p.GetManyRequest(("nonsense",)), timeout_s=5)


async def test_the_number_of_requests_in_one_message_is_bounded() -> None:
    async with group_of(1) as group:
        call = group.client().transport.call
        for keys in ((), ("/a",) * (p.GET_MANY_MAX + 1)):
            with pytest.raises(InvalidArgument, match=str(p.GET_MANY_MAX)):
                await call(p.GET_MANY, p.GetManyRequest(keys), timeout_s=5)
        single = p.ExecuteRequest(Identity(1, 1), (Put("/a", b""),))
        for requests in ((), (single,) * (p.EXECUTE_MANY_MAX + 1)):
            with pytest.raises(InvalidArgument, match=str(p.EXECUTE_MANY_MAX)):
                await call(p.EXECUTE_MANY, p.ExecuteManyRequest(requests), timeout_s=5)


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


async def test_an_address_that_nobody_could_call_does_not_enter_the_group() -> None:
    async with group_of(1) as group:
        admin = group.client(role=Role.ADMIN).admin
        (member,) = await admin.members()
        for change in (
            admin.add_learner(5, "nonsense"),
            admin.add_learner(5, ""),
            admin.relocate(member.node, "m1:99999"),
        ):
            with pytest.raises(InvalidArgument, match=r"address|port"):
                await change
        newcomer = group.client(role=Role.METASTORE).admin
        with pytest.raises(InvalidArgument, match="address"):
            await newcomer.join(5, "nonsense")
        assert await admin.members() == (member,)


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


async def test_a_session_belongs_to_the_client_that_opened_it() -> None:
    """Whoever learns its number can neither prolong it nor use it, nor see how its locks stand."""
    async with group_of(3) as group:
        owner, thief = group.client(), group.client()
        await thief.put("/warm", b"1")
        async with (
            await owner.session(ttl=60) as session,
            session.lock("/l") as held,
        ):
            client = thief.sequence.client
            others = session.id
            uses: list[tuple[Any, Any]] = [
                (p.KEEP_ALIVE, p.KeepAliveRequest(others, client)),
                (p.AWAIT_LOCK, p.AwaitLockRequest(others, "/l", held.token, client)),
                (p.ACQUIRE, p.AcquireRequest(Identity(client, 50), others, "/m")),
                (p.RELEASE, p.ReleaseRequest(Identity(client, 51), others, "/l")),
                (p.LEAVE_LOCK, p.LeaveLockRequest(Identity(client, 52), others, "/l", 1)),
                (p.CLOSE_SESSION, p.CloseSessionRequest(Identity(client, 53), others)),
                (p.EXECUTE, p.ExecuteRequest(Identity(client, 54), (Put("/e", b"", others),))),
            ]
            for method, request in uses:
                with pytest.raises(PermissionDenied, match="belongs to another client"):
                    await thief.transport.call(method, request, timeout_s=5)
            own = p.KeepAliveRequest(others, owner.sequence.client)
            assert (await owner.transport.call(p.KEEP_ALIVE, own, timeout_s=5)).session == others
        with pytest.raises(SessionExpired):
            await owner.transport.call(p.KEEP_ALIVE, own, timeout_s=5)


async def test_a_leader_that_has_just_begun_knows_whose_a_session_is() -> None:
    """The entry that opened it may not be applied yet where a renewal comes first."""
    async with group_of(3) as group:
        owner, thief = group.client(), group.client()
        session = await owner.session(ttl=60)
        await group.kill(await group.settled_leader())
        with pytest.raises(PermissionDenied):
            await thief.transport.call(
                p.KEEP_ALIVE, p.KeepAliveRequest(session.id, 1), timeout_s=20
            )
        own = p.KeepAliveRequest(session.id, owner.sequence.client)
        assert (await owner.transport.call(p.KEEP_ALIVE, own, timeout_s=20)).ttl_us == 60_000_000


def test_a_lock_that_is_granted_between_the_look_and_the_wait_is_not_missed() -> None:
    home = Home()
    first, second = home.ms.session(), home.ms.session()
    held = first.lock("/locks/x")
    held.acquire()
    asking = second._inner
    answer = InlineRunner().run(
        asking.acquire("/locks/x", exclusive=True, wait=True, ends_us=asking.deadline_us(1_000_000))
    )
    assert answer.is_waiting
    request = p.AwaitLockRequest(second.id, "/locks/x", answer.ticket, asking._sequence.client)
    handler = home.node.binding(p.AWAIT_LOCK.number).function(HERE, request)
    with home.node.entered():
        look = handler.send(None)
    assert look.done()
    held.release()
    with home.node.entered(), pytest.raises(StopIteration) as told:
        handler.send(None)
    assert told.value.value.token > 0
