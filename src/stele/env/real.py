"""The real clock, dice and background work."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from stele.env import allocators

NANOSECONDS_PER_MICROSECOND = 1_000
MICROSECONDS_PER_SECOND = 1_000_000

IDLE_SECONDS = 1.0
"""How long a thread without a job waits for one before it ends."""

Job = Callable[[], None]


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


class _Worker(threading.Thread):
    """A thread that does one job after the other, and ends when none came for a moment.

    The last to end gives back what memory the jobs of all have left with the allocators.
    """

    def __init__(self, idle: list[_Worker], name: str, job: Job):
        super().__init__(name=name, daemon=True)
        self._idle = idle
        self._jobs: SimpleQueue[tuple[str, Job]] = SimpleQueue()
        self._jobs.put((name, job))

    def take(self, name: str, job: Job) -> None:
        """Do this next. Only who took the worker from the idle ones may give it a job."""
        self._jobs.put((name, job))

    def run(self) -> None:
        while self._do_next():
            self._idle.append(self)
        if not self._idle:
            allocators.give_back()

    def _do_next(self) -> bool:
        """Wait for a job and do it; nothing of it is kept alive while waiting for the next."""
        try:
            self.name, job = self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            try:
                self._idle.remove(self)
            except ValueError:  # somebody took it this very moment
                self.name, job = self._jobs.get()
            else:
                return False
        job()
        return True


class ThreadTasks:
    """``Tasks`` as daemon threads.

    A thread whose job is done waits a moment for another: bulk writes start a job for every entry
    of the log, and starting a thread takes longer than handing one over. A job that raises goes to
    ``threading.excepthook`` and takes its thread along.
    """

    def __init__(self) -> None:
        # Adding to a list, taking from it and removing are single steps of the interpreter.
        self._idle: list[_Worker] = []
        self._process = os.getpid()

    def spawn(self, name: str, job: Job) -> None:
        if self._process != os.getpid():  # threads do not survive a fork
            self._idle, self._process = [], os.getpid()
        try:
            worker = self._idle.pop()
        except IndexError:
            _Worker(self._idle, name, job).start()
        else:
            worker.take(name, job)

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> threading.Timer:
        timer = threading.Timer(delay_us / MICROSECONDS_PER_SECOND, callback)
        timer.daemon = True
        timer.start()
        return timer
