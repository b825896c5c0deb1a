"""Coroutines wait for commits of other threads, within their deadline, and may be cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from stele.client.aio_waiting import Workers, durable, insist
from stele.client.waiting import ClientWorld
from stele.env.real import SystemClock, SystemRandom
from stele.errors import DeadlineExceeded, SteleError, StorageFailed, Throttled

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
