"""How coroutines wait for what threads do: commits, refusals, and calls that may block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

from stele.client.backend import Pending
from stele.client.waiting import (
    RETRIED,
    US_PER_SECOND,
    Deadline,
    NewTicket,
    Write,
    is_in_line,
)
from stele.errors import DeadlineExceeded, StaleHandle, SteleError
from stele.storage.admission_line import AdmissionTicket

THREADS_MAX = 16
"""Blocking calls at a time; more coroutines queue. Reads are short, and the machine has no more
cores than this to offer them."""

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """The threads in which blocking calls of one database run."""

    def __init__(self, threads: int = THREADS_MAX) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="stele-aio")

        self.is_closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a blocking call; cancellation stops the waiting, not the call."""
        if self.is_closed:
            raise StaleHandle("the database is closed: open it again")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))

    def close(self) -> None:
        """Let running calls end and take no more. Idempotent."""
        self.is_closed = True
        self._pool.shutdown(wait=False)


async def durable(pending: Pending, deadline: Deadline) -> int:
    """The txn of a commit when it is durable, or why it is not."""
    loop = asyncio.get_running_loop()
    decided: asyncio.Future[None] = loop.create_future()

    def in_loop(error: SteleError | None) -> None:
        if decided.done():  # cancelled, or late
            return
        if error is None:
            decided.set_result(None)
        else:
            decided.set_exception(error)

    def from_any_thread(error: SteleError | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(in_loop, error)

    pending.then(from_any_thread)
    try:
        async with asyncio.timeout(deadline.remaining_us() / US_PER_SECOND):
            await decided
    except TimeoutError:
        raise DeadlineExceeded("the commit was not durable within its timeout") from None
    return pending.txn


async def insist(deadline: Deadline, call: Callable[[], T]) -> T:
    """Make a call that does not block, again while it is refused for the moment."""
    while True:
        try:
            return call()
        except RETRIED as error:
            wait_us = deadline.wait_us(error)
        await asyncio.sleep(wait_us / US_PER_SECOND)


async def insist_in_line(deadline: Deadline, call: Write[T], new_ticket: NewTicket) -> T:
    """Make a write that does not block, again while it is refused, standing in line for room."""
    try:
        return call(None)
    except RETRIED as error:
        refusal = error
    ticket = new_ticket(deadline.remaining_us())
    if ticket is None:
        await asyncio.sleep(deadline.wait_us(refusal) / US_PER_SECOND)
        return await insist(deadline, lambda: call(None))
    try:
        while True:
            try:
                return call(ticket)
            except RETRIED as error:
                refusal = error
            if not is_in_line(ticket, refusal):
                await asyncio.sleep(deadline.wait_us(refusal) / US_PER_SECOND)
            elif not await its_turn(ticket, deadline.remaining_us()):
                raise refusal
    finally:
        ticket.leave()


async def its_turn(ticket: AdmissionTicket, timeout_us: int) -> bool:
    """Wait until a ticket is decided; False if the time is over first."""
    loop = asyncio.get_running_loop()
    decided: asyncio.Future[None] = loop.create_future()

    def in_loop() -> None:
        if not decided.done():  # else cancelled, or late
            decided.set_result(None)

    def from_any_thread() -> None:
        with suppress(RuntimeError):  # the loop is closed, and who waited in it is gone
            loop.call_soon_threadsafe(in_loop)

    ticket.then(from_any_thread)
    try:
        async with asyncio.timeout(timeout_us / US_PER_SECOND):
            await decided
    except TimeoutError:
        return False
    return True
