"""The line in front of an engine's memory: who was refused waits here for its turn.

A ticket is made for a request that found memory full. The first attempt with it joins the line, and
is refused like any other; when the ticket's turn has come, the next attempt passes by it. So the
request is made in its own thread, as always, and only the waiting is different: ``wait`` blocks a
thread, ``then`` calls back.

    ticket = line.ticket(timeout_us)
    try:
        ...                     # refused: the ticket stands in the line
        ticket.wait(left_us)    # its turn, or there never will be one: try again to hear which
        ...                     # admitted
    finally:
        ticket.leave()

The line is first come, first served (``stele.storage.memory_budget``): while somebody waits nobody
passes, and so a large request needs only wait until what came before it is flushed. Whoever leaves
lets the others go on. A ticket that was forgotten, or whose owner cannot run any more, is passed
over when its time is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from copy import copy

from stele.env.ports import Clock
from stele.errors import SteleError, Throttled
from stele.storage.memory_budget import Admission, MemoryBudget

US_PER_SECOND = 1_000_000


class AdmissionTicket(Admission):
    """For one request; see the module. Any thread may decide it, its owner waits and leaves."""

    __slots__ = ("_decided", "_line", "_listener", "ends_us", "stands")

    def __init__(self, line: AdmissionLine, ends_us: int) -> None:
        super().__init__(0, None)
        self._line = line
        self._decided = threading.Event()
        self._listener: Callable[[], None] | None = None
        self.ends_us = ends_us
        """Until when it counts."""
        self.stands = False
        """Whether it was refused with, and has not left since."""

    def wait(self, timeout_us: int) -> bool:
        """Block until another attempt will not be refused for want of room; False if time ends."""
        return self._decided.wait(timeout_us / US_PER_SECOND)

    def then(self, listener: Callable[[], None]) -> None:
        """Call back once instead, from any thread; at once if it is decided already."""
        with self._line.lock:
            if not self._decided.is_set():
                self._listener = listener
                return
        listener()

    def leave(self) -> None:
        """It was used, or is given up. Idempotent; also for one that never stood in the line."""
        self._line.leave(self)

    def decide(self) -> None:
        """It is its turn, or never will be. Called by the line, without the lock."""
        with self._line.lock:
            self._decided.set()
            listener, self._listener = self._listener, None
        if listener is not None:
            listener()


class AdmissionLine:
    """That of one owner, which counts its memory in ``budget.held_bytes`` under the same lock.

    Invariant: while somebody waits and nobody has a turn, ``on_full`` was called after the last
    thing that happened; so whoever makes room need only look at the line when a try has ended.
    """

    def __init__(
        self,
        lock: threading.Lock,
        clock: Clock,
        budget: MemoryBudget,
        on_full: Callable[[], None],
    ) -> None:
        """``on_full`` is called without the lock when only less memory lets anybody go on."""
        self.lock = lock
        self.budget = budget
        self._clock = clock
        self._on_full = on_full
        self._error: SteleError | None = None
        self._turns: dict[AdmissionTicket, None] = {}
        """Who was let in and has not left."""

    @property
    def is_stuck(self) -> bool:
        """Whether somebody waits whom only less memory helps."""
        return self.budget.waiting > 0 and not self._turns and self._error is None

    def ticket(self, timeout_us: int) -> AdmissionTicket:
        """One that counts for so long, and stands nowhere yet."""
        return AdmissionTicket(self, self._clock.monotonic_us() + timeout_us)

    def admit(self, size: int, ticket: AdmissionTicket | None) -> None:
        """Refuse what has to wait; with a ticket, it waits from now on. The lock is held.

        For requests that would grow what is held beyond ``open_bytes``. Whoever hears ``Throttled``
        calls ``refused`` when the lock is free.
        """
        if self._error is not None:
            raise copy(self._error) from self._error
        if ticket in self._turns or self.budget.has_room(size):
            return
        refusal = Throttled(self._reason(size))
        if ticket is not None and not ticket.stands and not ticket.released:
            ticket.size = size
            ticket.stands = True
            self.budget.ask(ticket)
        raise refusal

    def _reason(self, size: int) -> str:
        budget = self.budget
        others = ", and others wait already" if budget.waiting else ""
        return (
            f"{budget.held_bytes} bytes are in memory and not flushed yet{others}; with {size} "
            f"more the budget of {budget.limit_bytes} bytes would be exceeded"
        )

    def look(self) -> None:
        """Memory may have gone: let in who fits, or ask for more of it to go."""
        if self.budget.waiting:
            self._tell(self._let_in())
            if self.is_stuck:
                self._on_full()

    def refused(self) -> None:
        """Somebody was, with or without a ticket: see to it that there will be room."""
        self._tell(self._let_in())
        if not self._turns:  # who has a turn looks again when it leaves
            self._on_full()

    def leave(self, ticket: AdmissionTicket) -> None:
        """See ``AdmissionTicket.leave``."""
        with self.lock:
            admitted = self._remove(ticket)
        self._tell(admitted)
        if self.is_stuck:
            self._on_full()

    def close(self, error: SteleError) -> None:
        """Nobody is let in any more, for this reason; those who wait are told to hear it."""
        with self.lock:
            self._error = self._error or error
            waiting = _tickets(self.budget.close())
        self._tell(waiting)

    def _let_in(self) -> list[AdmissionTicket]:
        with self.lock:
            return [*self._pass_over_late(), *self._granted(self.budget.grant())]

    def _remove(self, ticket: AdmissionTicket) -> list[AdmissionTicket]:
        """Take a ticket out, wherever it is; who is let in by that. The lock is held."""
        if ticket.released or not ticket.stands:
            ticket.released = True
            return []
        ticket.stands = False
        self._turns.pop(ticket, None)
        return self._granted(self.budget.release(ticket))

    def _pass_over_late(self) -> list[AdmissionTicket]:
        """Take out who holds up others and whose time is over. The lock is held."""
        now_us = self._clock.monotonic_us()
        admitted: list[AdmissionTicket] = []
        for ticket in [ticket for ticket in self._turns if ticket.ends_us < now_us]:
            admitted += self._remove(ticket)
        while isinstance(first := self.budget.next_waiting, AdmissionTicket):
            if first.ends_us >= now_us:
                break
            admitted += self._remove(first)
        return admitted

    def _granted(self, granted: Iterable[Admission]) -> list[AdmissionTicket]:
        tickets = _tickets(granted)
        self._turns.update(dict.fromkeys(tickets))
        return tickets

    @staticmethod
    def _tell(decided: Iterable[AdmissionTicket]) -> None:
        for ticket in decided:
            ticket.decide()


def _tickets(admissions: Iterable[Admission]) -> list[AdmissionTicket]:
    """All who ask here do so with a ticket."""
    return [ticket for ticket in admissions if isinstance(ticket, AdmissionTicket)]
