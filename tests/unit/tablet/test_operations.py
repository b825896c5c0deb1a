"""The log of operations: what runs, how it ends, and how little of it is kept."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.memory import MemoryClock
from stele.errors import OutOfSpace
from stele.model.operations import OperationKind, OperationState
from stele.tablet.operations import TEXT_CHARACTERS_MAX, OperationLog, RunningOperation

FLUSH, SPLIT = OperationKind.FLUSH, OperationKind.SPLIT


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock(1_000_000)


@pytest.fixture
def log(clock: MemoryClock) -> OperationLog:
    return OperationLog(clock)


def test_what_runs_is_listed_with_what_is_known(log: OperationLog) -> None:
    running = log.begin(FLUSH, "users", "t1.1", detail="group hot", bytes_in=5)
    running.account(bytes_out=3, cells=2)
    (one,) = log.listed()
    assert (one.id, one.kind, one.table, one.tablet) == (1, FLUSH, "users", "t1.1")
    assert (one.detail, one.bytes_in, one.bytes_out, one.cells) == ("group hot", 5, 3, 2)
    assert (one.state, one.started_us, one.ended_us) == (OperationState.RUNNING, 1_000_000, None)


def test_each_end(log: OperationLog, clock: MemoryClock) -> None:
    done, failed, cancelled, dismissed = (log.begin(FLUSH, name) for name in "abcd")
    clock.advance(250)
    done.done()
    failed.failed(OutOfSpace("the disk is full"))
    cancelled.cancelled("nobody wants it")
    dismissed.dismiss()
    assert [(one.table, one.state.value, one.error) for one in log.listed()] == [
        ("a", "done", None),
        ("b", "failed", "the disk is full"),
        ("c", "cancelled", "nobody wants it"),
    ]
    assert {one.ended_us for one in log.listed()} == {1_000_250}


def test_the_first_end_counts(log: OperationLog) -> None:
    running = log.begin(FLUSH)
    running.cancelled("enough")
    running.done()
    running.account(cells=7)
    (one,) = log.listed()
    assert (one.state, one.cells) == (OperationState.CANCELLED, 0)


def test_a_clock_that_is_set_makes_nothing_longer(log: OperationLog, clock: MemoryClock) -> None:
    running = log.begin(FLUSH)
    clock.advance(10)
    clock.jump_wall(5)
    running.done()
    (one,) = log.listed()
    assert one.ended_us == one.started_us + 10


def test_a_block_ends_its_operation(log: OperationLog) -> None:
    with log.during(SPLIT, "users") as running:
        running.detail("at b'k'")
        assert log.listed()[0].state is OperationState.RUNNING
    with pytest.raises(OutOfSpace), log.during(SPLIT, "users"):
        raise OutOfSpace("the disk is full")
    with pytest.raises(KeyboardInterrupt), log.during(SPLIT, "users"):
        raise KeyboardInterrupt
    assert [(one.state.value, one.detail, one.error) for one in log.listed()] == [
        ("done", "at b'k'", None),
        ("failed", "", "the disk is full"),
        ("failed", "", "KeyboardInterrupt"),
    ]


def test_texts_are_one_line_and_not_too_long(log: OperationLog) -> None:
    log.begin(FLUSH, detail="a\n  b").cancelled("x" * 10_000)
    (one,) = log.listed()
    assert one.detail == "a b"
    assert one.error is not None
    assert len(one.error) == TEXT_CHARACTERS_MAX


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["begin", "done", "dismiss"]), max_size=60), st.integers(1, 5))
def test_all_that_run_and_the_last_that_ended(steps: list[str], kept: int) -> None:
    """Against a plain list of everything that ever happened."""
    log = OperationLog(MemoryClock(), kept)
    running: list[tuple[int, RunningOperation]] = []
    ended: list[int] = []
    begun = 0
    for step in steps:
        if step == "begin":
            begun += 1
            running.append((begun, log.begin(FLUSH)))
        elif running:
            number, operation = running.pop(begun % len(running))
            getattr(operation, step)()
            ended += [number] if step == "done" else []
    expected = sorted([number for number, _ in running] + ended[-kept:])
    assert [one.id for one in log.listed()] == expected


def test_threads_share_it(log: OperationLog) -> None:
    def work() -> None:
        for _ in range(200):
            with log.during(FLUSH) as running:
                running.account(cells=1)
                log.listed()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.id for one in log.listed()] == list(range(1, 801))
    assert {(one.state, one.cells) for one in log.listed()} == {(OperationState.DONE, 1)}
