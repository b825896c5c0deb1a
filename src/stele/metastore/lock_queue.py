"""Those who wait at this node to hear that a lock was granted.

The queue of a lock is in the replicated state; here are only the callers that wait for news of it.
Each hears within a bounded time, if only that nothing has changed: a caller whose node was cut off
from the group must notice and ask another. Pure; time is counted in ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stele.protocol.metastore import LockResponse

if TYPE_CHECKING:
    from stele.metastore.driver import Waiter

PATIENCE_TICKS = 10
"""How long a caller waits for news: below the time after which clients try another node."""


class _Caller(NamedTuple):
    session: int
    ends: int
    """The tick at which it is told something, whatever has happened."""
    waiter: Waiter


class LockWaiters:
    """By ticket: the number of the request in the log."""

    __slots__ = ("_ticks", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, list[_Caller]] = {}
        self._ticks = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ticket: int, session: int, waiter: Waiter) -> None:
        """One more who waits for this ticket, which is the session's."""
        caller = _Caller(session, self._ticks + PATIENCE_TICKS, waiter)
        self._waiting.setdefault(ticket, []).append(caller)

    def granted(self, ticket: int) -> list[Waiter]:
        """Take those who waited for this ticket."""
        return [caller.waiter for caller in self._waiting.pop(ticket, ())]

    def ended(self, session: int) -> list[Waiter]:
        """Take those who waited for tickets of this session."""
        tickets = [
            ticket for ticket, callers in self._waiting.items() if callers[0].session == session
        ]
        return [waiter for ticket in tickets for waiter in self.granted(ticket)]

    def tick(self) -> list[tuple[Waiter, LockResponse]]:
        """Take those who have waited long enough, each with what to tell it."""
        self._ticks += 1
        late: list[tuple[Waiter, LockResponse]] = []
        for ticket, callers in list(self._waiting.items()):
            kept = [caller for caller in callers if caller.ends > self._ticks]
            news = LockResponse(ticket, is_waiting=True)
            late += [(caller.waiter, news) for caller in callers if caller.ends <= self._ticks]
            if kept:
                self._waiting[ticket] = kept
            else:
                del self._waiting[ticket]
        return late
