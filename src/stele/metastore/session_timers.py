"""The leader's deadlines of sessions.

Every member knows which sessions are open, from the log. Only the leader keeps deadlines, in memory
and by its own monotonic clock, and only an entry in the log ends a session. Erring is therefore
allowed in one direction: a session may live longer than its TTL, never shorter. That decides all
the rest:

- a new leader gives every session one full TTL, as it knows nothing of earlier renewals;
- so does a leader that finds that it was suspended: the renewals were perhaps waiting at its door;
- a renewal counts from the first tick *after* it, which is not before its owner sent it;
- a session whose end has been proposed is not renewed any more, whatever becomes of the entry.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

EXPIRED_PER_ENTRY_MAX = 256
"""Sessions that end with one entry: enough for a rack that went dark, and still a short apply."""


class SessionTimers:
    """Each session of a leader has one place in a heap, by the deadline it had when it was put
    there. One that comes due but was renewed meanwhile is put back, so a renewal is but a note."""

    __slots__ = (
        "_away_us_max",
        "_deadlines",
        "_due",
        "_expiring",
        "_fresh",
        "_leading",
        "_now_us",
        "_ttls",
    )

    def __init__(self, away_us_max: int) -> None:
        self._away_us_max = away_us_max
        self._ttls: dict[int, int] = {}
        self._deadlines: dict[int, int] = {}
        self._due: list[tuple[int, int]] = []
        self._fresh: set[int] = set()
        self._expiring: set[int] = set()
        self._leading = False
        self._now_us: int | None = None

    def __len__(self) -> int:
        return len(self._ttls)

    def replace(self, sessions: Iterable[tuple[int, int]]) -> None:
        """These sessions are open, by a state that took the place of the old one."""
        self._ttls = dict(sessions)
        if self._leading:
            self.lead()

    def opened(self, session: int, ttl_us: int) -> None:
        """A session began; its time runs from the next tick."""
        self._ttls[session] = ttl_us
        if self._leading:
            self._fresh.add(session)

    def ended(self, session: int) -> None:
        """A session is over, by an entry that was applied."""
        self._ttls.pop(session, None)
        self._deadlines.pop(session, None)
        self._fresh.discard(session)
        self._expiring.discard(session)

    def lead(self) -> None:
        """Leadership begins here: one full TTL for everybody."""
        self.follow()
        self._leading = True
        self._fresh.update(self._ttls)

    def follow(self) -> None:
        """Leadership is lost: somebody else counts."""
        self._leading = False
        self._now_us = None
        self._expiring.clear()
        self._deadlines.clear()
        self._due.clear()
        self._fresh.clear()

    def renew(self, session: int) -> int | None:
        """Its owner lives, as a leader that is one for certain has heard: the TTL, or None when the
        session is over or about to be."""
        ttl_us = self._ttls.get(session)
        if ttl_us is None or session in self._expiring or not self._leading:
            return None
        self._fresh.add(session)
        return ttl_us

    def tick(self, now_us: int) -> list[int]:
        """Time has passed at the leader: which sessions are due to end, a bounded number."""
        if not self._leading:
            return []
        before = self._now_us
        if before is not None and now_us - before > self._away_us_max:
            self.lead()
        self._now_us = now_us
        self._note_fresh(now_us)
        return self._take_due(now_us)

    def _note_fresh(self, now_us: int) -> None:
        for session in sorted(self._fresh):
            deadline_us = now_us + self._ttls[session]
            if session not in self._deadlines:
                heapq.heappush(self._due, (deadline_us, session))
            self._deadlines[session] = deadline_us
        self._fresh.clear()

    def _take_due(self, now_us: int) -> list[int]:
        due: list[int] = []
        while self._due and self._due[0][0] <= now_us and len(due) < EXPIRED_PER_ENTRY_MAX:
            _, session = heapq.heappop(self._due)
            deadline_us = self._deadlines.get(session)
            if deadline_us is None:
                continue
            if deadline_us > now_us:
                heapq.heappush(self._due, (deadline_us, session))
            else:
                due.append(session)
        return due

    def expire(self, sessions: Iterable[int]) -> None:
        """The end of these was proposed."""
        self._expiring.update(sessions)

    def put_back(self, sessions: Iterable[int]) -> None:
        """The end of these could not be proposed now: due again at the next tick."""
        for session in sessions:
            heapq.heappush(self._due, (self._deadlines[session], session))
