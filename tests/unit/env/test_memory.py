"""Time that stands still, dice that repeat, work that waits to be run."""

from __future__ import annotations

import pytest

from stele.env import memory
from stele.env.memory import DEFAULT_START_US, MemoryClock, MemoryTasks, SeededRandom


def test_the_clock_moves_only_when_moved() -> None:
    clock = MemoryClock()
    assert (clock.now_us(), clock.monotonic_us()) == (DEFAULT_START_US, 0)
    clock.advance(5)
    assert (clock.now_us(), clock.monotonic_us()) == (DEFAULT_START_US + 5, 5)
    with pytest.raises(AssertionError):
        clock.advance(-1)


def test_wall_time_jumps_and_monotonic_time_does_not() -> None:
    clock = MemoryClock(1_000)
    clock.jump_wall(10)
    assert (clock.now_us(), clock.monotonic_us()) == (10, 0)


def test_equal_seeds_roll_equal_dice() -> None:
    one, two, other = SeededRandom(1), SeededRandom(1), SeededRandom(2)
    rolls = [one.below(1_000) for _ in range(20)]
    assert rolls == [two.below(1_000) for _ in range(20)]
    assert rolls != [other.below(1_000) for _ in range(20)]
    assert all(0 <= roll < 1_000 for roll in rolls)
    assert one.bytes(8) == two.bytes(8)
    assert len(one.bytes(3)) == 3


def test_jobs_run_when_asked_in_the_order_of_their_asking() -> None:
    tasks, seen = MemoryTasks(MemoryClock()), list[str]()

    def first() -> None:
        seen.append("first")
        tasks.spawn("child", lambda: seen.append("child"))

    tasks.spawn("first", first)
    tasks.spawn("second", lambda: seen.append("second"))
    assert seen == []
    assert tasks.pending() == ["first", "second"]
    assert tasks.run_one()
    assert seen == ["first"]
    assert tasks.run_ready() == 2
    assert seen == ["first", "second", "child"]
    assert not tasks.run_one()


def test_timers_see_the_time_they_were_set_for() -> None:
    clock = MemoryClock()
    tasks, seen = MemoryTasks(clock), list[tuple[str, int]]()

    def note(name: str) -> None:
        seen.append((name, clock.monotonic_us()))

    def early() -> None:
        note("early")
        tasks.call_later(5, lambda: note("chained"))

    tasks.call_later(30, lambda: note("late"))
    tasks.call_later(10, early)
    cancelled = tasks.call_later(20, lambda: note("cancelled"))
    cancelled.cancel()
    cancelled.cancel()
    assert tasks.run_ready() == 0
    assert tasks.advance(29) == 2
    assert clock.monotonic_us() == 29
    assert tasks.pending() == ["timer"]
    assert tasks.advance(100) == 1
    assert seen == [("early", 10), ("chained", 15), ("late", 30)]
    assert clock.monotonic_us() == 129


def test_a_job_that_raises_fails_the_test_that_runs_it() -> None:
    tasks = MemoryTasks(MemoryClock())

    def broken() -> None:
        raise ZeroDivisionError

    tasks.spawn("broken", broken)
    with pytest.raises(ZeroDivisionError):
        tasks.run_ready()


def test_work_that_never_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "STEPS_MAX", 100)
    tasks = MemoryTasks(MemoryClock())

    def again() -> None:
        tasks.spawn("again", again)

    again()
    with pytest.raises(AssertionError, match="again"):
        tasks.run_ready()
