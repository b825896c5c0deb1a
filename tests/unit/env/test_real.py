"""The real clock, dice and threads, as far as they can be told from wrong ones."""

from __future__ import annotations

import threading
import time

from stele.env.real import SystemClock, SystemRandom, ThreadTasks


def test_the_clock_tells_wall_time_and_boot_time() -> None:
    clock = SystemClock()
    before_ns = time.time_ns()
    now_us = clock.now_us()
    assert before_ns // 1_000 <= now_us <= time.time_ns() // 1_000
    first = clock.monotonic_us()
    boot_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
    assert first <= boot_us <= clock.monotonic_us()


def test_the_dice_are_in_range_and_differ() -> None:
    random = SystemRandom()
    assert all(0 <= random.below(3) < 3 for _ in range(100))
    assert len(random.bytes(16)) == 16
    assert random.bytes(16) != random.bytes(16)


def test_jobs_run_in_threads_of_their_name() -> None:
    done = threading.Event()
    seen: list[tuple[str, bool]] = []

    def job() -> None:
        thread = threading.current_thread()
        seen.append((thread.name, thread.daemon))
        done.set()

    ThreadTasks().spawn("worker", job)
    assert done.wait(30)
    assert seen == [("worker", True)]


def test_timers_fire_once_and_can_be_cancelled() -> None:
    tasks, fired = ThreadTasks(), threading.Event()
    cancelled = tasks.call_later(60_000_000, fired.clear)
    cancelled.cancel()
    cancelled.join(30)
    assert not cancelled.is_alive()
    timer = tasks.call_later(1_000, fired.set)
    assert fired.wait(30)
    timer.cancel()
