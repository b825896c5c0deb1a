"""The real clock, dice and threads, as far as they can be told from wrong ones."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

import pytest

from stele.env import allocators, real
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


def in_thread(tasks: ThreadTasks, name: str) -> threading.Thread:
    """The thread that a job ran in, once it is idle or gone."""
    found: list[threading.Thread] = []
    done = threading.Event()

    def job() -> None:
        found.append(threading.current_thread())
        done.set()

    tasks.spawn(name, job)
    assert done.wait(30)
    return found[0]


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(30_000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it never came")


def test_a_thread_serves_again_under_another_name() -> None:
    tasks = ThreadTasks()
    first = in_thread(tasks, "one")
    wait_until(lambda: len(tasks._crew.idle) == 1)
    second = in_thread(tasks, "two")
    assert second is first
    assert second.name == "two"


def test_jobs_at_the_same_time_have_threads_of_their_own() -> None:
    tasks, together = ThreadTasks(), threading.Barrier(4)

    def job() -> None:
        together.wait(30)

    for number in range(3):
        tasks.spawn(f"job {number}", job)
    together.wait(30)
    wait_until(lambda: len(tasks._crew.idle) == 3)
    assert len(set(tasks._crew.idle)) == 3


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "IDLE_SECONDS", 0.01)
    given_back: list[str] = []
    monkeypatch.setattr(allocators, "give_back", lambda: given_back.append("memory"))
    tasks, goes_on = ThreadTasks(), threading.Event()

    def long() -> None:
        assert goes_on.wait(30)

    tasks.spawn("long", long)
    thread = in_thread(tasks, "short")
    thread.join(30)
    assert not thread.is_alive()
    assert not tasks._crew.idle
    assert not given_back, "another still works"
    goes_on.set()
    wait_until(lambda: given_back == ["memory"])
    assert in_thread(tasks, "next") is not thread


def test_nothing_of_a_job_stays_alive_in_an_idle_thread() -> None:
    class Heavy:
        def job(self) -> None:
            """What a job holds is its own."""

    tasks, held = ThreadTasks(), Heavy()
    watched = weakref.ref(held)
    tasks.spawn("job", held.job)
    del held
    wait_until(lambda: len(tasks._crew.idle) == 1)
    wait_until(lambda: watched() is None)
    assert tasks._crew.idle[0].is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_job_that_raises_takes_its_thread_along(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_type))
    tasks = ThreadTasks()
    tasks.spawn("bad", lambda: print(1 // 0))
    wait_until(lambda: seen == [ZeroDivisionError])
    assert not tasks._crew.idle


def test_threads_are_not_expected_to_survive_a_fork() -> None:
    tasks = ThreadTasks()
    in_thread(tasks, "parent's")
    wait_until(lambda: len(tasks._crew.idle) == 1)
    tasks._crew.process -= 1
    assert in_thread(tasks, "child's").is_alive()


def test_timers_fire_once_and_can_be_cancelled() -> None:
    tasks, fired = ThreadTasks(), threading.Event()
    cancelled = tasks.call_later(60_000_000, fired.clear)
    cancelled.cancel()
    cancelled.join(30)
    assert not cancelled.is_alive()
    timer = tasks.call_later(1_000, fired.set)
    assert fired.wait(30)
    timer.cancel()
