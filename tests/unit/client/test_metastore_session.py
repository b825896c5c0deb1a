"""Sessions and locks of the asyncio client."""

from __future__ import annotations

import asyncio

import pytest

from stele.errors import DeadlineExceeded, SessionExpired, Throttled
from tests.unit.metastore.cluster_support import group_of


async def test_s6_s7_a_session_takes_its_keys_and_locks_with_it() -> None:
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
        await asyncio.sleep(0.05)
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
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            (server,) = group.servers.values()
            assert not server.driver.machine.lock("/locks/x").waiters
        assert await second.lock("/locks/x", wait=False).acquire() > 0


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
