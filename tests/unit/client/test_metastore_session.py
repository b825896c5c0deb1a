"""Sessions and locks of the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stele.client.metastore_sequence import RequestNumbers
from stele.client.metastore_session import AsyncSession
from stele.errors import DeadlineExceeded, SessionExpired, Throttled
from stele.metastore.commands import LockInfo
from stele.protocol.metastore import ACQUIRE, AWAIT_LOCK, LockResponse, SessionResponse
from stele.rpc.service import Unary
from tests.unit.metastore.cluster_support import Group, group_of


def lock_at(group: Group, key: str) -> LockInfo:
    """Who holds a lock and who waits, by the only node of a group."""
    (server,) = group.servers.values()
    return server.driver.machine.lock(key)


async def until_somebody_waits(group: Group, key: str) -> None:
    """Return when a request is in the queue of a lock."""
    async with asyncio.timeout(20):
        while not lock_at(group, key).waiters:
            await asyncio.sleep(0.001)


async def test_s6_a_session_takes_its_keys_and_locks_with_it() -> None:
    async with group_of(1) as group:
        ms = group.client()
        async with await ms.session(ttl=5) as session:
            await ms.put("/alive", b"", session=session)
            lock = session.lock("/locks/x")
            await lock.acquire()
            held = [lock.is_held]
        assert not session.is_alive
        held.append(lock.is_held)
        assert held == [True, False]
        assert await ms.get("/alive") is None
        with pytest.raises(SessionExpired):
            await session.lock("/locks/x").acquire()
        async with await ms.session() as other:
            assert await other.lock("/locks/x", wait=False).acquire() > 0


async def test_s13_s14_locks_are_shared_or_exclusive_and_first_come_first_served() -> None:
    async with group_of(1) as group:
        ms = group.client()
        sessions = [await ms.session() for _ in range(4)]
        shared = [s.lock("/locks/x", exclusive=False) for s in sessions[:2]]
        for each in shared:
            await each.acquire()
        writer = sessions[2].lock("/locks/x")
        waiting = asyncio.ensure_future(writer.acquire())
        await until_somebody_waits(group, "/locks/x")
        with pytest.raises(Throttled, match="held by others"):
            await sessions[3].lock("/locks/x", exclusive=False, wait=False).acquire()
        assert not waiting.done()
        for each in shared:
            await each.release()
        token = await waiting
        assert token > max(0, *(each.token for each in shared))
        await writer.release()
        await writer.release()


async def test_a_wait_that_is_cancelled_or_late_leaves_no_trace() -> None:
    async with group_of(1) as group:
        ms = group.client()
        first, second = await ms.session(), await ms.session()
        async with first.lock("/locks/x"):
            with pytest.raises(DeadlineExceeded):
                await second.lock("/locks/x", timeout=0.05).acquire()
            waiting = asyncio.ensure_future(second.lock("/locks/x").acquire())
            await until_somebody_waits(group, "/locks/x")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not lock_at(group, "/locks/x").waiters
        assert await second.lock("/locks/x", wait=False).acquire() > 0


@pytest.mark.parametrize("is_held", [False, True])
async def test_who_is_cancelled_at_any_moment_neither_holds_nor_waits(is_held: bool) -> None:
    """Also before the first answer has come, when nobody here knows the ticket."""
    async with group_of(1) as group:
        ms = group.client()
        first, second = await ms.session(), await ms.session()
        if is_held:
            await first.lock("/locks/x").acquire()
        for turns in range(40):
            asking = asyncio.ensure_future(second.lock("/locks/x").acquire())
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            if not asking.cancelled():
                await second.release("/locks/x", 0)
            found = lock_at(group, "/locks/x")
            assert second.id not in [r.session for r in (*found.holders, *found.waiters)], turns


class Queue:
    """A transport to a group that has the lock given to others, and says no more about it."""

    def keep(self, *_: object) -> Callable[[], None]:
        return lambda: None

    def monotonic_us(self) -> int:
        return 0

    async def call(self, method: Unary[Any, Any], _: object, *, timeout_s: float) -> LockResponse:
        if method is AWAIT_LOCK:
            raise DeadlineExceeded(f"no answer within {timeout_s} s")
        return LockResponse(7, is_waiting=method is ACQUIRE)


async def test_who_waits_in_vain_hears_that_others_hold_it() -> None:
    transport: Any = Queue()
    session = AsyncSession(transport, RequestNumbers(1), SessionResponse(1, 10_000_000), 0)
    late = "the lock /locks/x was not granted within 0.02 s: it is held by others"
    with pytest.raises(DeadlineExceeded, match=late):
        await session.lock("/locks/x", timeout=0.02).acquire()


async def test_who_is_late_with_the_first_answer_leaves_nothing_behind() -> None:
    async with group_of(1) as group:
        session = await group.client().session()
        with pytest.raises(DeadlineExceeded):
            await session.lock("/locks/x", timeout=0).acquire()
        found = lock_at(group, "/locks/x")
        assert not found.holders
        assert not found.waiters


async def test_a_lock_survives_the_leader_and_is_not_granted_twice() -> None:
    async with group_of(3) as group:
        ms = group.client()
        holder, waiter = await ms.session(ttl=10), await ms.session(ttl=10)
        held = holder.lock("/locks/x")
        token = await held.acquire()
        waiting = asyncio.ensure_future(waiter.lock("/locks/x", timeout=30).acquire())
        await asyncio.sleep(0.05)
        await group.kill(group.leader())
        await group.settled_leader()
        assert held.is_held
        assert not waiting.done()
        await held.release()
        assert await waiting > token


async def test_who_loses_its_session_is_told() -> None:
    async with group_of(1) as group:
        ms = group.client()
        session = await ms.session(ttl=0.2)
        lost = asyncio.Event()
        session.on_lost(lost.set)
        (address,) = group.servers
        await group.kill(address)
        async with asyncio.timeout(20):
            await lost.wait()
        assert not session.is_alive
        again = asyncio.Event()
        session.on_lost(again.set)
        assert again.is_set()
