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

IDLE_SECONDS = 0.2
"""How long a thread without a job waits for one before it ends: many times what lies between the
jobs of a bulk load, and short enough that the last one gives memory back before others need it."""

GIVE_BACK_US = 10 * MICROSECONDS_PER_SECOND
"""The least time between two times that memory is given back."""

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


class _Crew:
    """The threads of one process. Adding to a list, taking from it and removing are single steps of
    the interpreter."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.alive: list[_Worker] = []
        self.idle: list[_Worker] = []
        self._tidied_us = -GIVE_BACK_US

    def tidy_up(self) -> None:
        """When the last has ended: give back what memory their jobs have left behind."""
        now_us = SystemClock().monotonic_us()
        if not self.alive and now_us - self._tidied_us >= GIVE_BACK_US:
            self._tidied_us = now_us
            allocators.give_back()


class _Worker(threading.Thread):
    """A thread that does one job after the other, and ends when none came for a moment."""

    def __init__(self, crew: _Crew, name: str, job: Job):
        super().__init__(name=name, daemon=True)
        self._crew = crew
        self._idle = crew.idle
        self._jobs: SimpleQueue[tuple[str, Job]] = SimpleQueue()
        self._jobs.put((name, job))

    def take(self, name: str, job: Job) -> None:
        """Do this next. Only who took the worker from the idle ones may give it a job."""
        self._jobs.put((name, job))

    def run(self) -> None:
        self._crew.alive.append(self)
        try:
            while self._do_next():
                self._idle.append(self)
        finally:
            self._crew.alive.remove(self)
            self._crew.tidy_up()

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
        self._crew = _Crew()

    def spawn(self, name: str, job: Job) -> None:
        if self._crew.process != os.getpid():  # threads do not survive a fork
            self._crew = _Crew()
        try:
            worker = self._crew.idle.pop()
        except IndexError:
            _Worker(self._crew, name, job).start()
        else:
            worker.take(name, job)

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> threading.Timer:
        timer = threading.Timer(delay_us / MICROSECONDS_PER_SECOND, callback)
        timer.daemon = True
        timer.start()
        return timer
