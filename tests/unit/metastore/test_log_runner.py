"""Where the jobs of the log run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from stele.env.memory import MemoryClock
from stele.metastore.log_runner import (
    FEW_ENTRIES_MAX,
    MEMORY_SYNCS,
    QUICK_US_MAX,
    LogRunner,
    SyncPlace,
)
from stele.metastore.log_worker import LogJob


def after(*took_us: int) -> SyncPlace:
    place = SyncPlace()
    for one in took_us:
        place.note(one)
    return place


def test_a_disk_has_to_show_that_it_is_quick() -> None:
    assert not SyncPlace().is_loop(1)
    assert not after(100).is_loop(1)
    assert after(*[100] * MEMORY_SYNCS).is_loop(1)


def test_a_disk_of_some_milliseconds_is_never_waited_for() -> None:
    assert not after(*[2 * QUICK_US_MAX] * 100).is_loop(1)


def test_moments_without_a_processor_are_no_slow_disk() -> None:
    busy = [100, 100, 100, 10 * QUICK_US_MAX]
    assert after(*[100] * 50, *busy * 50).is_loop(FEW_ENTRIES_MAX)
    assert not after(*[100] * 50, *busy * 50).is_loop(FEW_ENTRIES_MAX + 1), "many wait for it"
    assert after(*[100] * 50, 5 * QUICK_US_MAX).is_loop(FEW_ENTRIES_MAX + 1)


def test_a_sync_that_hangs_sends_the_next_ones_to_the_thread() -> None:
    hung = after(*[100] * 50, 100 * QUICK_US_MAX)
    assert not hung.is_loop(1)
    for _ in range(10 * MEMORY_SYNCS):
        hung.note(100)
    assert hung.is_loop(1), "until it is quick again"


class Job:
    """Remembers the thread that ran it, and takes its time on the clock."""

    def __init__(self, clock: MemoryClock, took_us: int) -> None:
        self._clock = clock
        self._took_us = took_us
        self.has_slow_work = False
        self.entries = 1
        self.ran_in: threading.Thread | None = None
        self.lost: str | None = None

    def run(self) -> None:
        self._clock.advance(self._took_us)
        self.ran_in = threading.current_thread()


class Turns:
    """A runner with somebody who takes its turns."""

    def __init__(self) -> None:
        self.clock = MemoryClock()
        self.done: asyncio.Queue[Any] = asyncio.Queue()
        self.woken = 0
        loop = asyncio.get_running_loop()
        self.runner = LogRunner(loop, self.clock, self.done.put_nowait, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    async def run(self, job: Job) -> bool:
        """Whether the job waited for the loop."""
        woken = self.woken
        self.runner.start(cast("LogJob", job))
        waited = self.woken > woken
        assert not waited or job.ran_in is None, "before the turn has sent what it has to send"
        assert self.runner.run_here() == waited
        assert not self.runner.run_here(), "once"
        assert await self.done.get() is job
        return waited


@pytest.mark.parametrize(("took_us", "in_loop"), [(100, True), (10 * QUICK_US_MAX, False)])
async def test_jobs_run_where_the_disk_says(took_us: int, in_loop: bool) -> None:
    turns = Turns()
    jobs = [Job(turns.clock, took_us) for _ in range(4 * MEMORY_SYNCS)]
    waited = [await turns.run(job) for job in jobs]
    assert jobs[0].ran_in is not threading.main_thread()
    assert (jobs[-1].ran_in is threading.main_thread()) == in_loop
    assert waited == [job.ran_in is threading.main_thread() for job in jobs]
    await asyncio.to_thread(turns.runner.close)


async def test_an_image_goes_to_the_thread_and_says_nothing_about_the_disk() -> None:
    turns = Turns()
    slow = Job(turns.clock, 10_000 * QUICK_US_MAX)
    slow.has_slow_work = True
    jobs = [*(Job(turns.clock, 100) for _ in range(4 * MEMORY_SYNCS)), slow, Job(turns.clock, 100)]
    for job in jobs:
        await turns.run(job)
    assert slow.ran_in is not threading.main_thread()
    assert jobs[-1].ran_in is threading.main_thread()
    await asyncio.to_thread(turns.runner.close)


async def test_a_closed_runner_runs_nothing_any_more() -> None:
    turns = Turns()
    for _ in range(4 * MEMORY_SYNCS):
        await turns.run(Job(turns.clock, 100))
    late = Job(turns.clock, 100)
    turns.runner.start(cast("LogJob", late))
    await asyncio.to_thread(turns.runner.close)
    assert not turns.runner.run_here()
    assert late.ran_in is None


async def test_a_bug_in_the_thread_is_the_end_of_the_log_and_not_of_the_thread() -> None:
    turns = Turns()
    broken, sound = Job(turns.clock, 100), Job(turns.clock, 100)

    def fail() -> None:
        raise MemoryError

    broken.run = fail  # type: ignore[method-assign]
    for job in (broken, sound):
        await turns.run(job)
    assert broken.lost is not None
    assert "MemoryError" in broken.lost
    assert sound.lost is None
    await asyncio.to_thread(turns.runner.close)
