"""Before an entry of the log is written, those may come whose commits have just become durable.

Threads that write one commit after the other come back with the next as soon as they are woken. If
the first of them wrote its entry at once, the log would alternate between an entry of one commit
and an entry of all others, and pay two syncs for what one can carry. So the first to come back
*watches*, and whoever completes the group leads, without a switch of threads in between:

    entry of 16 ──▶ 16 woken ──▶ the first watches ──▶ the sixteenth leads: entry of 16

Nobody waits for threads that have something else to do: if none came for a ``PAUSE_S``, the watcher
leads, and the next few who find the log idle do not watch at all. A lone writer expects nobody but
itself.

Pure: no threads, no clock.
"""

from __future__ import annotations

from typing import Final

from stele.storage.log_queue import Ticket

PAUSE_S: Final = 0.0005
"""How long nobody has to come before a watcher waits no longer: many times what a thread takes to
come back, and as long as a few quick syncs."""

LEFT_OUT: Final = 8
"""Gatherings, after one that was in vain."""


class Gathering:
    """Belongs to one log, whose lock guards it."""

    __slots__ = ("_expected", "_left_out", "_seen", "watcher")

    def __init__(self) -> None:
        self._expected = 0
        self._left_out = 0
        self._seen = 0
        self.watcher: Ticket | None = None
        """Who has the lead, and leaves it to whoever completes the group."""

    def expect(self, count: int) -> None:
        """So many commits will be queued when all are back."""
        self._expected = count
        self._seen = 0

    def is_over(self, queued: int) -> bool:
        """Whether all are there, or none came since the last look. Asked by whoever may watch."""
        if queued >= self._expected:
            return True
        if self._left_out:
            self._left_out -= 1
            return True
        if queued == self._seen:
            self._left_out = LEFT_OUT
            return True
        self._seen = queued
        return False

    def take_over(self, queued: int) -> bool:
        """Whether the one who asks has completed a group that somebody watches: it leads now."""
        if self.watcher is None or queued < self._expected:
            return False
        self.watcher = None
        return True
