"""Writes of clients that the store refuses for the moment: made again, until their time is over.

A write that finds memory full stands in the line for it, without a thread: the loop hears of its
turn, and only then a thread makes it. Other refusals are waited out for a moment.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from stele.client.aio_waiting import Workers, its_turn
from stele.client.waiting import BACKOFF, RETRIED, US_PER_SECOND, NewTicket, Write, is_in_line
from stele.env.ports import Random
from stele.errors import SteleError
from stele.rpc.service import Context
from stele.storage.admission_line import AdmissionTicket

ANSWER_US: Final = 250_000
"""What is kept of a deadline for the way back, at most a quarter of what is left: so that a client
hears that the store is full, and not only that its time is over."""

WAIT_US_MAX: Final = 3_600_000_000
"""How long a request without a deadline stands in the line."""

T = TypeVar("T")


class Patience:
    """That of one request, which may hold several writes. Belongs to the loop."""

    def __init__(self, context: Context, random: Random) -> None:
        self._random = random
        self._refusals = 0
        now_us = self._now_us()
        left_us = context.remaining_us(now_us, WAIT_US_MAX)
        self._ends_us = now_us + left_us - min(ANSWER_US, left_us // 4)

    async def insist(
        self, workers: Workers, call: Write[T], new_ticket: NewTicket, refusal: SteleError
    ) -> T:
        """Make a write in a thread that was refused before, as often as it takes."""
        ticket = await workers.run(new_ticket, self._left_us())
        if ticket is None:
            await self._outlast(refusal, None)
        try:
            while True:
                try:
                    return await workers.run(call, ticket)
                except RETRIED as error:
                    refusal = error
                await self._outlast(refusal, ticket)
        finally:
            if ticket is not None:
                ticket.leave()

    async def _outlast(self, refusal: SteleError, ticket: AdmissionTicket | None) -> None:
        """Wait until another attempt makes sense; raises the refusal when none would."""
        left_us = self._left_us()
        if ticket is not None and is_in_line(ticket, refusal):
            if not await its_turn(ticket, left_us):
                raise refusal
            return
        self._refusals += 1
        dice = self._random.below(BACKOFF.span_us(self._refusals) // 2)
        wait_us = BACKOFF.wait_us(self._refusals, dice)
        if wait_us > left_us:
            raise refusal
        await asyncio.sleep(wait_us / US_PER_SECOND)

    def _left_us(self) -> int:
        return max(0, self._ends_us - self._now_us())

    @staticmethod
    def _now_us() -> int:
        return int(asyncio.get_running_loop().time() * US_PER_SECOND)
