"""How calls wait: deadlines, and patience with what asks to be tried again in a moment.

Every call has a deadline. Within it, a full budget (``Throttled``) and a failed read of the disk
(``TransientIoError``) are waited out, longer after each refusal; nothing of such a call has taken
effect. A write that finds the memory of the store full stands in the line for it, where there is
one, and is made when it is its turn (``stele.storage.admission_line``). When the deadline would
pass first, the refusal itself is raised: it says more than "late".
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from stele.env.interrupts import Uninterrupted
from stele.env.ports import Clock, Random
from stele.errors import DeadlineExceeded, InvalidArgument, SteleError, Throttled, TransientIoError
from stele.model.durations import DURATION_US_MAX, parse_duration
from stele.rpc.backoff_policy import BackoffPolicy
from stele.storage.admission_line import AdmissionTicket

Timeout: TypeAlias = float | str | datetime.timedelta | None
"""Seconds, or text such as ``"500ms"``, or a ``timedelta``; ``None`` is the default."""

TIMEOUT_US_DEFAULT = 60_000_000
"""Long enough for a flush to make room, short enough that nobody waits for ever."""

US_PER_SECOND = 1_000_000

OPERATION_US_DEFAULT = 3_600 * US_PER_SECOND
"""For what rewrites a table's files, unless it is told: a compaction may take this long."""

ANSWER_US = 1_000_000
"""How much longer than its timeout a call to another process is waited for, if it ends by itself
there: what it says then is worth hearing."""

RETRIED = (Throttled, TransientIoError)
"""What a call that is refused so may simply try again: nothing of it has happened."""

BACKOFF = BackoffPolicy(first_us=1_000, last_us=250_000)
"""The first wait is shorter than a flush of a few pages, the last one about a whole flush."""

T = TypeVar("T")

NewTicket: TypeAlias = Callable[[int], AdmissionTicket | None]
"""Makes a ticket for a write that was refused; see ``TableBackend.admission_ticket``."""

Write: TypeAlias = Callable[[AdmissionTicket | None], T]
"""A call that needs memory of the store, and may have a ticket for it."""


def pause_thread(duration_us: int) -> None:
    """Let the thread rest; the pause of those who have nothing to be woken by."""
    threading.Event().wait(duration_us / US_PER_SECOND)


@dataclass(frozen=True, slots=True)
class ClientWorld:
    """What the client needs of the world."""

    clock: Clock
    random: Random
    pause: Callable[[int], None] = pause_thread

    def deadline(self, timeout: Timeout = None) -> Deadline:
        """The moment until which a call that begins now may take."""
        return Deadline(self, self.clock.monotonic_us() + timeout_us(timeout))


def timeout_us(timeout: Timeout) -> int:
    """A timeout in microseconds; bare numbers are seconds.

    >>> timeout_us(1.5), timeout_us("250ms"), timeout_us(None)
    (1500000, 250000, 60000000)
    """
    if timeout is None:
        return TIMEOUT_US_DEFAULT
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        if not 0 <= timeout <= DURATION_US_MAX / US_PER_SECOND:
            raise InvalidArgument(f"timeout is a number of seconds from 0, not {timeout!r}")
        return round(timeout * US_PER_SECOND)
    return parse_duration(timeout, "timeout")


@dataclass(slots=True)
class Deadline:
    """When a call must end, and how often it was refused so far."""

    world: ClientWorld
    ends_us: int
    refusals: int = 0

    def remaining_us(self) -> int:
        """What is left, at least 0."""
        return max(0, self.ends_us - self.world.clock.monotonic_us())

    def check(self, what: str) -> None:
        """Give up on ``what`` when the time is over."""
        if not self.remaining_us():
            raise DeadlineExceeded(f"{what} was not done within its timeout")

    def wait_us(self, error: SteleError) -> int:
        """How long to wait after a refusal; raises it when that would be too long."""
        self.refusals += 1
        dice = self.world.random.below(BACKOFF.span_us(self.refusals) // 2)
        wait_us = BACKOFF.wait_us(self.refusals, dice)
        if wait_us > self.remaining_us():
            raise error
        return wait_us

    def insist(self, call: Callable[[], T]) -> T:
        """Make a call, again while it is refused for the moment and time is left."""
        while True:
            try:
                return call()
            except RETRIED as error:
                wait_us = self.wait_us(error)
            self.world.pause(wait_us)

    def insist_in_line(self, call: Write[T], new_ticket: NewTicket) -> T:
        """Make a write, again while it is refused and time is left, standing in line for room.

        An interrupt from the keyboard ends the waiting, and leaves nobody in the line.
        """
        try:
            return call(None)
        except RETRIED as error:
            refusal = error
        ticket = new_ticket(self.remaining_us())
        if ticket is None:
            self.world.pause(self.wait_us(refusal))
            return self.insist(lambda: call(None))
        with Uninterrupted() as uninterrupted:
            try:
                return self._insist_with(ticket, call, uninterrupted)
            finally:
                ticket.leave()

    def _insist_with(
        self, ticket: AdmissionTicket, call: Write[T], uninterrupted: Uninterrupted
    ) -> T:
        while True:
            try:
                return call(ticket)
            except RETRIED as error:
                refusal = error
            with uninterrupted.listening():
                if not is_in_line(ticket, refusal):
                    self.world.pause(self.wait_us(refusal))
                elif not ticket.wait(self.remaining_us()):
                    raise refusal


def is_in_line(ticket: AdmissionTicket | None, refusal: SteleError) -> bool:
    """Whether a refusal is waited out with a ticket, and not by trying again after a moment."""
    return ticket is not None and ticket.stands and isinstance(refusal, Throttled)
