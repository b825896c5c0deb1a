"""Coroutines wait for commits of other threads, within their deadline, and may be cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from stele.client.aio_waiting import Workers, durable, insist, insist_in_line, its_turn
from stele.client.waiting import ClientWorld
from stele.env.real import SystemClock, SystemRandom
from stele.errors import DeadlineExceeded, SteleError, StorageFailed, Throttled
from stele.storage.admission_line import AdmissionLine, AdmissionTicket
from stele.storage.memory_budget import MemoryBudget

WORLD = ClientWorld(SystemClock(), SystemRandom())


class Commit:
    """Decided when the test says so, from a thread of its own."""

    txn = 7

    def __init__(self) -> None:
        self.callbacks: list[Callable[[SteleError | None], None]] = []

    def wait(self, timeout_us: int | None = None) -> int:
        raise AssertionError("the event loop must not block")

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        self.callbacks.append(callback)

    def decide(self, error: SteleError | None = None) -> None:
        thread = threading.Thread(target=lambda: [call(error) for call in self.callbacks])
        thread.start()
        thread.join()


async def test_a_commit_is_awaited() -> None:
    commit = Commit()
    waiting = asyncio.ensure_future(durable(commit, WORLD.deadline()))
    await asyncio.sleep(0)
    commit.decide()
    assert await waiting == 7


async def test_a_failed_commit_raises_why() -> None:
    commit = Commit()
    waiting = asyncio.ensure_future(durable(commit, WORLD.deadline()))
    await asyncio.sleep(0)
    commit.decide(StorageFailed("the sync failed"))
    with pytest.raises(StorageFailed, match="the sync failed"):
        await waiting


async def test_the_deadline_holds_and_a_late_answer_is_harmless() -> None:
    commit = Commit()
    with pytest.raises(DeadlineExceeded, match="not durable"):
        await durable(commit, WORLD.deadline(0))
    commit.decide()
    await asyncio.sleep(0)


async def test_cancelling_stops_the_waiting() -> None:
    commit = Commit()
    waiting = asyncio.ensure_future(durable(commit, WORLD.deadline()))
    await asyncio.sleep(0)
    waiting.cancel()
    commit.decide()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_refusals_are_waited_out() -> None:
    answers = [Throttled("full"), Throttled("full"), None]

    def call() -> str:
        error = answers.pop(0)
        if error is not None:
            raise error
        return "done"

    assert await insist(WORLD.deadline(), call) == "done"
    answers[:] = [Throttled("full")]
    with pytest.raises(Throttled):
        await insist(WORLD.deadline(0), call)


async def test_blocking_calls_run_elsewhere() -> None:
    workers = Workers(1)
    assert await workers.run(threading.get_ident) != threading.get_ident()
    workers.close()


class FullStore:
    """Its memory is full until it is flushed, from a thread of its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.budget = MemoryBudget(10)
        self.budget.held_bytes = 8
        self.line = AdmissionLine(self.lock, WORLD.clock, self.budget, lambda: None)

    def write(self, ticket: AdmissionTicket | None) -> str:
        with self.lock:
            self.line.admit(4, ticket)
        return "done"

    def flush(self) -> None:
        self.budget.held_bytes = 0
        thread = threading.Thread(target=self.line.look)
        thread.start()
        thread.join()


async def waiting_in(store: FullStore, timeout: float | None = None) -> asyncio.Task[str]:
    deadline = WORLD.deadline(timeout)
    task = asyncio.ensure_future(insist_in_line(deadline, store.write, store.line.ticket))
    while not store.budget.waiting:
        await asyncio.sleep(0)
    return task


async def test_a_write_waits_for_its_turn() -> None:
    store = FullStore()
    task = await waiting_in(store)
    store.flush()
    assert await task == "done"
    assert store.budget.used_bytes == 0


async def test_a_write_that_is_cancelled_leaves_the_line() -> None:
    store = FullStore()
    first, second = await waiting_in(store), await waiting_in(store)
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    store.flush()
    assert await second == "done"
    assert (store.budget.waiting, store.budget.used_bytes) == (0, 0)


async def test_the_refusal_is_raised_when_the_turn_does_not_come() -> None:
    store = FullStore()
    with pytest.raises(Throttled, match="8 bytes are in memory"):
        await insist_in_line(WORLD.deadline(0.001), store.write, store.line.ticket)
    assert store.budget.waiting == 0


async def test_a_write_that_finds_no_line_is_tried_again() -> None:
    answers: list[SteleError | None] = [Throttled("full"), Throttled("full"), None]

    def write(ticket: AdmissionTicket | None) -> str:
        assert ticket is None
        error = answers.pop(0)
        if error is not None:
            raise error
        return "done"

    assert await insist_in_line(WORLD.deadline(), write, lambda _timeout_us: None) == "done"


def test_a_turn_that_comes_when_the_loop_is_closed_harms_nobody() -> None:
    store = FullStore()
    ticket = store.line.ticket(60_000_000)
    with pytest.raises(Throttled):
        store.write(ticket)
    assert not asyncio.run(its_turn(ticket, 0))
    store.flush()
    assert ticket.granted
