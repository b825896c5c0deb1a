"""Where the jobs of the log run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from stele.env.memory import MemoryClock
from stele.metastore.log_runner import MEMORY_SYNCS, QUICK_US_MAX, LogRunner, SyncPlace
from stele.metastore.log_worker import LogJob


def after(*took_us: int) -> SyncPlace:
    place = SyncPlace()
    for one in took_us:
        place.note(one)
    return place


def test_a_disk_has_to_show_that_it_is_quick() -> None:
    assert not SyncPlace().is_loop
    assert not after(100).is_loop
    assert after(*[100] * MEMORY_SYNCS).is_loop


def test_a_disk_of_some_milliseconds_is_never_waited_for() -> None:
    assert not after(*[2 * QUICK_US_MAX] * 100).is_loop


def test_a_moment_without_a_processor_is_no_slow_disk() -> None:
    assert after(*[100] * 50, 5 * QUICK_US_MAX).is_loop


def test_a_sync_that_hangs_sends_the_next_ones_to_the_thread() -> None:
    hung = after(*[100] * 50, 100 * QUICK_US_MAX)
    assert not hung.is_loop
    for _ in range(10 * MEMORY_SYNCS):
        hung.note(100)
    assert hung.is_loop, "until it is quick again"


class Job:
    """Remembers the thread that ran it, and takes its time on the clock."""

    def __init__(self, clock: MemoryClock, took_us: int) -> None:
        self._clock = clock
        self._took_us = took_us
        self.has_slow_work = False
        self.ran_in: threading.Thread | None = None

    def run(self) -> None:
        self._clock.advance(self._took_us)
        self.ran_in = threading.current_thread()


@pytest.mark.parametrize(("took_us", "in_loop"), [(100, True), (10 * QUICK_US_MAX, False)])
async def test_jobs_run_where_the_disk_says(took_us: int, in_loop: bool) -> None:
    clock = MemoryClock()
    done: asyncio.Queue[Any] = asyncio.Queue()
    runner = LogRunner(asyncio.get_running_loop(), clock, done.put_nowait)
    jobs = [Job(clock, took_us) for _ in range(4 * MEMORY_SYNCS)]
    order: list[str] = []
    for job in jobs:
        asyncio.get_running_loop().call_soon(order.append, "sent")
        runner.start(cast("LogJob", job))
        assert await done.get() is job
        order.append("done")
    assert jobs[0].ran_in is not threading.main_thread()
    assert (jobs[-1].ran_in is threading.main_thread()) == in_loop
    assert order == ["sent", "done"] * len(jobs), "what the turn sends leaves before the sync"
    await asyncio.to_thread(runner.close)


async def test_an_image_goes_to_the_thread_and_says_nothing_about_the_disk() -> None:
    clock = MemoryClock()
    done: asyncio.Queue[Any] = asyncio.Queue()
    runner = LogRunner(asyncio.get_running_loop(), clock, done.put_nowait)
    slow = Job(clock, 10_000 * QUICK_US_MAX)
    slow.has_slow_work = True
    jobs = [*(Job(clock, 100) for _ in range(4 * MEMORY_SYNCS)), slow, Job(clock, 100)]
    for job in jobs:
        runner.start(cast("LogJob", job))
        await done.get()
    assert slow.ran_in is not threading.main_thread()
    assert jobs[-1].ran_in is threading.main_thread()
    await asyncio.to_thread(runner.close)
