"""The reads that are running: they hold the horizon back, so that nothing is dropped under them.

A read holds its txn first and the horizon moves second, or the other way round, never at once: both
go through one lock. A horizon that was granted here is on its way to the disk, and no read below it
is let in any more; one that is in holds it back.

A hold lasts while its read goes on. One that nobody has used for a while no longer counts, so that
a scan that was begun and forgotten does not keep a table's whole past; it gets its hold back when
it goes on, unless the horizon has passed it by then.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from stele.env.ports import Clock

IDLE_US_MAX = 15 * 60 * 1_000_000
"""Longer than anybody thinks about one batch, shorter than the usual history of an hour."""


@dataclass(slots=True, eq=False)
class Hold:
    """One read's claim on a table as it was at a txn."""

    table: str
    txn: int
    used_us: int
    is_over: bool = False


class ActiveReads:
    """Knows, for each table, what is being read. Threads share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holds: dict[str, set[Hold]] = {}
        self._granted: dict[str, int] = {}

    def begin(self, table: str, txn: int) -> Hold | None:
        """Hold a txn until ``end``; ``None`` when the horizon is above it."""
        hold = Hold(table, txn, 0)
        return hold if self.use(hold) else None

    def use(self, hold: Hold) -> bool:
        """The read goes on. False if it was away for so long that the horizon has passed it."""
        with self._lock:
            hold.used_us = self._clock.monotonic_us()
            holds = self._holds.setdefault(hold.table, set())
            if hold not in holds:
                if hold.txn < self._granted.get(hold.table, 0):
                    return False
                holds.add(hold)
            return True

    def end(self, hold: Hold) -> None:
        """The read is over. Harmless if it has lost its hold.

        Waits for nobody: a scan that was forgotten ends wherever the collector of cycles finds it,
        perhaps in a thread that is at work here. Then the next round takes its hold away.
        """
        hold.is_over = True
        if self._lock.acquire(blocking=False):
            self._holds.get(hold.table, set()).discard(hold)
            self._lock.release()

    def grant(self, table: str, horizon: int) -> int:
        """Where the horizon may move, as far as reads are concerned; it never moves back."""
        with self._lock:
            idle_since = self._clock.monotonic_us() - IDLE_US_MAX
            holds = {hold for hold in self._active(table) if hold.used_us >= idle_since}
            self._holds[table] = holds
            held = min((hold.txn for hold in holds), default=horizon)
            granted = max(self._granted.get(table, 0), min(horizon, held))
            self._granted[table] = granted
            return granted

    def granted(self, table: str) -> int:
        """The highest horizon that was granted."""
        return self._granted.get(table, 0)

    def oldest(self, table: str) -> int | None:
        """The smallest txn that is held."""
        with self._lock:
            return min((hold.txn for hold in self._active(table)), default=None)

    def _active(self, table: str) -> list[Hold]:
        """The holds of reads that are not over. The lock is held."""
        return [hold for hold in self._holds.get(table, ()) if not hold.is_over]
