"""Deterministic clock, dice and tasks, for tests and the simulator.

Nothing here starts a thread or reads the machine's clock: time moves when a test moves it, and
background work runs when a test lets it, in an order given by the calls and the seed alone.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

DEFAULT_START_US = 1_700_000_000_000_000
"""14 November 2023: a wall time that looks like one."""

STEPS_MAX = 1_000_000
"""A run of background work that takes longer than this does not end by itself."""


class MemoryClock:
    """``Clock`` that stands still until moved. Wall time can jump; monotonic time cannot."""

    def __init__(self, now_us: int = DEFAULT_START_US) -> None:
        self._now_us = now_us
        self._monotonic_us = 0

    def now_us(self) -> int:
        return self._now_us

    def monotonic_us(self) -> int:
        return self._monotonic_us

    def advance(self, duration_us: int) -> None:
        """Let time pass on both clocks."""
        assert duration_us >= 0, duration_us
        self._now_us += duration_us
        self._monotonic_us += duration_us

    def jump_wall(self, to_us: int) -> None:
        """Set the wall clock, forward or back, as an operator or NTP would."""
        self._now_us = to_us


class SeededRandom:
    """``Random`` whose dice follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)  # noqa: S311 - repeatable is the point

    def bytes(self, length: int) -> bytes:
        return self._generator.randbytes(length)

    def below(self, bound: int) -> int:
        return self._generator.randrange(bound)


@dataclass(order=True, slots=True)
class _Due:
    """Something to run, ordered by time and then by the order of asking."""

    at_us: int
    number: int
    name: str = field(compare=False)
    job: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.job = None


class MemoryTasks:
    """``Tasks`` that run one at a time, when asked to, in order of their time.

    ``run_ready`` runs what is due; ``advance`` also lets time pass and stops the clock at each
    timer on the way, so that a timer sees the time it was set for.
    """

    def __init__(self, clock: MemoryClock) -> None:
        self._clock = clock
        self._queue: list[_Due] = []
        self._numbers = itertools.count()

    def spawn(self, name: str, job: Callable[[], None]) -> None:
        self._push(0, name, job)

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> _Due:
        return self._push(delay_us, "timer", callback)

    def _push(self, delay_us: int, name: str, job: Callable[[], None]) -> _Due:
        assert delay_us >= 0, delay_us
        due = _Due(self._clock.monotonic_us() + delay_us, next(self._numbers), name, job)
        heapq.heappush(self._queue, due)
        return due

    def pending(self) -> list[str]:
        """The names of what has not run yet, in the order in which it will."""
        return [due.name for due in sorted(self._queue) if due.job is not None]

    def run_one(self) -> bool:
        """Run the next job that is due; False when there is none."""
        while self._queue and self._queue[0].at_us <= self._clock.monotonic_us():
            job = heapq.heappop(self._queue).job
            if job is not None:
                job()
                return True
        return False

    def run_ready(self) -> int:
        """Run everything that is due, and what that spawns; returns how many ran."""
        for count in range(STEPS_MAX):
            if not self.run_one():
                return count
        raise AssertionError(f"still busy after {STEPS_MAX} jobs: {self.pending()[:5]}")

    def advance(self, duration_us: int) -> int:
        """Let time pass and run what falls due on the way; returns how many ran."""
        end_us = self._clock.monotonic_us() + duration_us
        count = self.run_ready()
        while self._queue and self._queue[0].at_us <= end_us:
            self._clock.advance(max(0, self._queue[0].at_us - self._clock.monotonic_us()))
            count += self.run_ready()
        self._clock.advance(end_us - self._clock.monotonic_us())
        return count
