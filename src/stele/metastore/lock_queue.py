"""Those who wait at this node to hear that a lock was granted.

The queue of a lock is in the replicated state; here are only the callers that wait for news of it.
Each hears within a bounded time, if only that nothing has changed: a caller whose node was cut off
from the group must notice and ask another. Pure; time is counted in ticks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stele.protocol.metastore import LockResponse

if TYPE_CHECKING:
    from stele.metastore.driver import Waiter

PATIENCE_TICKS = 10
"""How long a caller waits for news: below the time after which clients try another node."""


@dataclass(slots=True)
class _Caller:
    ticket: int
    ends: int
    """The tick at which it is told something, whatever has happened."""
    waiter: Waiter
    is_told: bool = False


class LockWaiters:
    """By ticket: the number of the request in the log.

    A wake-up costs what it wakes, however many wait: tickets are found by their session, and all
    callers are patient for the same time, so they become impatient in the order in which they came.
    """

    __slots__ = ("_in_order", "_of_session", "_sessions", "_ticks", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, deque[_Caller]] = {}
        self._sessions: dict[int, int] = {}
        """By ticket: whose it is."""
        self._of_session: dict[int, dict[int, None]] = {}
        self._in_order: deque[_Caller] = deque()
        """Those who have been told stay here until their time is over."""
        self._ticks = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ticket: int, session: int, waiter: Waiter) -> None:
        """One more who waits for this ticket, which is the session's."""
        caller = _Caller(ticket, self._ticks + PATIENCE_TICKS, waiter)
        self._in_order.append(caller)
        if ticket not in self._waiting:
            self._waiting[ticket] = deque()
            self._sessions[ticket] = session
            self._of_session.setdefault(session, {})[ticket] = None
        self._waiting[ticket].append(caller)

    def granted(self, ticket: int) -> list[Waiter]:
        """Take those who waited for this ticket."""
        callers = self._waiting.get(ticket)
        if callers is None:
            return []
        self._forget(ticket)
        for caller in callers:
            caller.is_told = True
        return [caller.waiter for caller in callers]

    def _forget(self, ticket: int) -> None:
        del self._waiting[ticket]
        session = self._sessions.pop(ticket)
        tickets = self._of_session[session]
        del tickets[ticket]
        if not tickets:
            del self._of_session[session]

    def ended(self, session: int) -> list[Waiter]:
        """Take those who waited for tickets of this session."""
        tickets = list(self._of_session.get(session, ()))
        return [waiter for ticket in tickets for waiter in self.granted(ticket)]

    def tick(self) -> list[tuple[Waiter, LockResponse]]:
        """Take those who have waited long enough, each with what to tell it."""
        self._ticks += 1
        late: list[tuple[Waiter, LockResponse]] = []
        while self._in_order and self._in_order[0].ends <= self._ticks:
            caller = self._in_order.popleft()
            if caller.is_told:
                continue
            late.append((caller.waiter, LockResponse(caller.ticket, is_waiting=True)))
            callers = self._waiting[caller.ticket]
            first = callers.popleft()
            assert first is caller, "who came first is impatient first"
            if not callers:
                self._forget(caller.ticket)
        return late
