"""The reads that are running: they hold the horizon back, so that nothing is dropped under them.

A read holds its txn first and the horizon moves second, or the other way round, never at once: both
go through one lock. A horizon that was granted here is on its way to the disk, and no read below it
is let in any more; one that is in holds it back.
"""

from __future__ import annotations

import threading
from collections import Counter


class ActiveReads:
    """Counts, for each table, the txns that are being read at. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._txns: dict[str, Counter[int]] = {}
        self._granted: dict[str, int] = {}

    def begin(self, table: str, txn: int) -> bool:
        """Hold a txn until ``end``; False, and nothing is held, when the horizon is above it."""
        with self._lock:
            if txn < self._granted.get(table, 0):
                return False
            self._txns.setdefault(table, Counter())[txn] += 1
            return True

    def end(self, table: str, txn: int) -> None:
        with self._lock:
            txns = self._txns[table]
            txns[txn] -= 1
            if not txns[txn]:
                del txns[txn]
            if not txns:
                del self._txns[table]

    def grant(self, table: str, horizon: int) -> int:
        """Where the horizon may move, as far as reads are concerned; it never moves back."""
        with self._lock:
            held = min(self._txns.get(table, ()), default=horizon)
            granted = max(self._granted.get(table, 0), min(horizon, held))
            self._granted[table] = granted
            return granted

    def granted(self, table: str) -> int:
        """The highest horizon that was granted."""
        return self._granted.get(table, 0)

    def oldest(self, table: str) -> int | None:
        """The smallest txn being read at."""
        with self._lock:
            return min(self._txns.get(table, ()), default=None)
