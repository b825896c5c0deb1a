"""The reads that are running: they hold the horizon back, so that nothing is dropped under them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class ActiveReads:
    """Counts, for each table, the txns that are being read at. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._txns: dict[str, Counter[int]] = {}

    def begin(self, table: str, txn: int) -> None:
        with self._lock:
            self._txns.setdefault(table, Counter())[txn] += 1

    def end(self, table: str, txn: int) -> None:
        with self._lock:
            txns = self._txns[table]
            txns[txn] -= 1
            if not txns[txn]:
                del txns[txn]
            if not txns:
                del self._txns[table]

    @contextmanager
    def reading(self, table: str, txn: int) -> Iterator[None]:
        """Hold the horizon for the length of a ``with`` block."""
        self.begin(table, txn)
        try:
            yield
        finally:
            self.end(table, txn)

    def oldest(self, table: str) -> int | None:
        """The smallest txn being read at."""
        with self._lock:
            return min(self._txns.get(table, ()), default=None)
