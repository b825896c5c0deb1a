"""The real clock, dice and background work."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable

NANOSECONDS_PER_MICROSECOND = 1_000
MICROSECONDS_PER_SECOND = 1_000_000


class SystemClock:
    """``Clock``. The monotonic one is CLOCK_BOOTTIME: a lease must run out during a suspend."""

    def now_us(self) -> int:
        return time.time_ns() // NANOSECONDS_PER_MICROSECOND

    def monotonic_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // NANOSECONDS_PER_MICROSECOND


class SystemRandom:
    """``Random``, from the kernel; safe for names and tokens, also after a fork."""

    def bytes(self, length: int) -> bytes:
        return os.urandom(length)

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)


class ThreadTasks:
    """``Tasks`` as daemon threads, one for each job and each timer.

    For few, long jobs: log workers, flushes, compactions. What comes by the thousand has a queue
    of its own. A job that raises goes to ``threading.excepthook``.
    """

    def spawn(self, name: str, job: Callable[[], None]) -> None:
        threading.Thread(target=job, name=name, daemon=True).start()

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> threading.Timer:
        timer = threading.Timer(delay_us / MICROSECONDS_PER_SECOND, callback)
        timer.daemon = True
        timer.start()
        return timer
