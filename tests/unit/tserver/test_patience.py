"""Refused writes of clients: in the line without a thread, and told before their time is over."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stele.client.aio_waiting import Workers
from stele.env.memory import SeededRandom
from stele.env.real import SystemClock
from stele.errors import Throttled, TransientIoError
from stele.rpc.identity import EVERYONE, PeerIdentity, Proof
from stele.rpc.service import Context
from stele.storage.admission_line import AdmissionLine, AdmissionTicket
from stele.storage.memory_budget import MemoryBudget
from stele.tserver.patience import Patience

SECOND_US = 1_000_000
FULL = Throttled("memory is full")


class FullStore:
    """Its memory is full until it is flushed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.budget = MemoryBudget(10)
        self.budget.held_bytes = 8
        self.line = AdmissionLine(self.lock, SystemClock(), self.budget, lambda: None)

    def write(self, ticket: AdmissionTicket | None) -> str:
        with self.lock:
            self.line.admit(4, ticket)
        return "done"

    def flush(self) -> None:
        self.budget.held_bytes = 0
        self.line.look()


def patience(timeout_us: int) -> Patience:
    peer = PeerIdentity(EVERYONE, "p", Proof.CLAIM)
    now_us = int(asyncio.get_running_loop().time() * SECOND_US)
    return Patience(Context(peer, peer, None, now_us + timeout_us, ()), SeededRandom(1))


async def test_who_waits_in_the_line_holds_no_thread() -> None:
    store, workers = FullStore(), Workers(1)
    tasks = [
        asyncio.ensure_future(
            patience(60 * SECOND_US).insist(workers, store.write, store.line.ticket, FULL)
        )
        for _ in range(5)
    ]
    while store.budget.waiting < 5:
        await asyncio.sleep(0)
    await workers.run(store.flush)
    assert await asyncio.gather(*tasks) == ["done"] * 5
    assert store.budget.used_bytes == 0
    workers.close()


async def test_the_refusal_comes_before_the_deadline() -> None:
    store, workers = FullStore(), Workers(1)
    with pytest.raises(Throttled, match="8 bytes are in memory"):
        await patience(1_000).insist(workers, store.write, store.line.ticket, FULL)
    assert store.budget.waiting == 0
    workers.close()


async def test_a_request_that_is_given_up_leaves_the_line() -> None:
    store, workers = FullStore(), Workers(1)
    task = asyncio.ensure_future(
        patience(60 * SECOND_US).insist(workers, store.write, store.line.ticket, FULL)
    )
    while not store.budget.waiting:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.budget.waiting == 0
    workers.close()


async def test_without_a_line_and_after_a_failed_read_it_is_tried_again() -> None:
    workers = Workers(1)
    answers = [TransientIoError("eio"), Throttled("full"), None]

    def write(ticket: AdmissionTicket | None) -> str:
        assert ticket is None
        error = answers.pop(0)
        if error is not None:
            raise error
        return "done"

    found = await patience(60 * SECOND_US).insist(workers, write, lambda _timeout_us: None, FULL)
    assert found == "done"
    answers[:] = [None]
    with pytest.raises(Throttled, match="memory is full"):
        await patience(0).insist(workers, write, lambda _timeout_us: None, FULL)
    assert answers == [None], "no time was left for another attempt"
    workers.close()
