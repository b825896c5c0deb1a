"""Locks on rows, for threads of one process that read, decide and write the same row.

The store finds every conflict by itself; queueing before it only spares the losers a new try. So
rows share a fixed number of locks: two rows on one lock wait for each other now and then, and
nothing has to be cleaned up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stele.client.waiting import US_PER_SECOND, Deadline
from stele.errors import DeadlineExceeded

STRIPES = 256
"""Far more than threads that run at once; about 20 kB for each table in use."""


class RowLocks:
    """The locks of one table. Threads share it."""

    def __init__(self, stripes: int = STRIPES) -> None:
        self._locks = tuple(threading.Lock() for _ in range(stripes))

    @contextmanager
    def hold(self, row: bytes, deadline: Deadline) -> Iterator[None]:
        """Alone with a row, as far as this process goes."""
        lock = self._locks[hash(row) % len(self._locks)]
        patience = min(deadline.remaining_us() / US_PER_SECOND, threading.TIMEOUT_MAX)
        if not lock.acquire(timeout=patience):
            raise DeadlineExceeded(f"other calls of this process kept row {row[:64]!r} busy")
        try:
            yield
        finally:
            lock.release()
