"""How long a change waits for others: its turn.

Changes of the catalog come one after the other, and those of a table's files wait for flushes and
compactions to end. A turn bounds all the waits of one call together. It is asked before anything
is changed, so a call that is late has changed nothing; what has begun is finished.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stele.client.waiting import TIMEOUT_US_DEFAULT, US_PER_SECOND
from stele.env.ports import Clock
from stele.errors import DeadlineExceeded


class Turn:
    """That of one call, which begins now."""

    def __init__(
        self,
        clock: Clock,
        timeout_us: int = TIMEOUT_US_DEFAULT,
        outcome: str = "nothing was changed",
    ) -> None:
        """``outcome`` is what became of a call that is late."""
        self._clock = clock
        self._timeout_us = timeout_us
        self._outcome = outcome
        self._ends_us = clock.monotonic_us() + timeout_us

    @property
    def left_us(self) -> int:
        """What is left, at least 0."""
        return max(0, self._ends_us - self._clock.monotonic_us())

    @property
    def left_s(self) -> float:
        """The same in seconds."""
        return self.left_us / US_PER_SECOND

    def acquire(self, lock: threading.RLock | threading.Lock, what: str) -> None:
        """Take a lock that ``what`` may hold for long."""
        if not lock.acquire(timeout=self.left_s):
            raise self.late(what)

    def wait_for(
        self, condition: threading.Condition, holds: Callable[[], bool], what: str
    ) -> None:
        """Wait until something holds, while ``what`` is in the way. The lock is held."""
        if not condition.wait_for(holds, self.left_s):
            raise self.late(what)

    def late(self, what: str) -> DeadlineExceeded:
        """The error of a call whose time is over."""
        timeout_s = self._timeout_us / US_PER_SECOND
        return DeadlineExceeded(f"{what} for {timeout_s:g} s: {self._outcome}")


class CatalogLock:
    """One change of the catalog at a time; a change may be made within another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lock = threading.RLock()
        self._depth = 0
        """How many changes, one within the other, the holder of the lock is in."""

    @contextmanager
    def held(self, turn: Turn | None = None) -> Iterator[None]:
        """Change the catalog, when it is one's turn."""
        turn = turn or Turn(self._clock)
        turn.acquire(self.lock, "another change of the catalog has been under way")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.lock.release()

    @contextmanager
    def held_if_free(self) -> Iterator[bool]:
        """Keep changes away for a moment, if none is under way: neither another's nor one's own."""
        if not self.lock.acquire(blocking=False):
            yield False
            return
        try:
            yield self._depth == 0
        finally:
            self.lock.release()
