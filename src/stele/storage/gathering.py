"""A leader of the log waits a moment for those whose commits have just become durable.

Threads that write one commit after the other come back with the next as soon as they are woken. If
the first of them wrote its entry at once, the log would alternate between an entry of one commit
and an entry of all others, and pay two syncs for what one can carry. So whoever is about to lead
lets them come first, as long as they do:

    entry of 16 ──▶ 16 woken ──▶ the first leads, and waits until 16 are queued ──▶ entry of 16

Nobody waits for threads that have something else to do: who gathers in vain waits ``PAUSE_S``
once, and the next few leaders do not wait at all. A lone writer expects nobody but itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

PAUSE_S: Final = 0.0002
"""How long nobody has to come before a leader waits no longer: several times what a thread takes to
come back, and about as long as a quick sync."""

LEFT_OUT: Final = 8
"""Gatherings, after one that was in vain."""


class Gathering:
    """Belongs to one log, whose ``lock`` guards it."""

    __slots__ = ("_bell", "_expected", "_left_out", "_lock")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._expected = 0
        self._left_out = 0
        self._bell: threading.Lock | None = None
        """What the leader waits for."""

    def expect(self, count: int) -> None:
        """So many commits will be queued when all are back. The lock is held."""
        self._expected = count

    def arrived(self, count: int) -> None:
        """So many are queued now. The lock is held."""
        if self._bell is not None and count >= self._expected:
            self._bell.release()
            self._bell = None

    def wait(self, queued: Callable[[], int]) -> None:
        """Return when all are back, or no more come. By the leader, without the lock."""
        seen = 0
        while True:
            with self._lock:
                count = queued()
                if self._is_over(count, seen):
                    return
                seen = count
                bell = self._bell = threading.Lock()
                bell.acquire()
            try:
                if bell.acquire(timeout=PAUSE_S):
                    return
            finally:
                with self._lock:
                    self._bell = None

    def _is_over(self, count: int, seen: int) -> bool:
        """Whether all are there, or none came since the last look."""
        if count >= self._expected:
            return True
        if self._left_out:
            self._left_out -= 1
            return True
        if count == seen:
            self._left_out = LEFT_OUT
            return True
        return False
