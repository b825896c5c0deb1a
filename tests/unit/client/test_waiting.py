"""Deadlines and retries, on a clock that only the pauses move."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable

import pytest

from stele.client.waiting import (
    BACKOFF,
    TIMEOUT_US_DEFAULT,
    ClientWorld,
    pause_thread,
    timeout_us,
)
from stele.env.memory import MemoryClock, SeededRandom
from stele.errors import (
    DeadlineExceeded,
    InvalidArgument,
    StaleRow,
    SteleError,
    Throttled,
    TransientIoError,
)
from stele.storage.admission_line import AdmissionLine, AdmissionTicket
from stele.storage.memory_budget import MemoryBudget


class World:
    """A world in which time passes by pausing."""

    def __init__(self) -> None:
        self.clock = MemoryClock()
        self.pauses: list[int] = []
        self.client = ClientWorld(self.clock, SeededRandom(1), self.pause)

    def pause(self, duration_us: int) -> None:
        self.pauses.append(duration_us)
        self.clock.advance(duration_us)


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        (None, TIMEOUT_US_DEFAULT),
        (2, 2_000_000),
        (0.25, 250_000),
        ("3ms", 3_000),
        (datetime.timedelta(seconds=1), 1_000_000),
        (0, 0),
    ],
)
def test_timeouts_in_every_form(timeout: object, expected: int) -> None:
    assert timeout_us(timeout) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "soon", True, b"1s", "-1s"])
def test_a_wrong_timeout_is_refused(timeout: object) -> None:
    with pytest.raises(InvalidArgument, match="timeout"):
        timeout_us(timeout)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [Throttled("full"), TransientIoError("eio")])
def test_refusals_are_waited_out_longer_each_time(error: Exception) -> None:
    world = World()
    answers: list[Exception | str] = [error, error, error, "done"]

    def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert world.client.deadline("10s").insist(call) == "done"
    assert len(world.pauses) == 3
    for failures, pause in enumerate(world.pauses, 1):
        assert BACKOFF.span_us(failures) // 2 < pause <= BACKOFF.span_us(failures)


def test_the_refusal_is_raised_when_time_is_over() -> None:
    world = World()

    def refuse() -> None:
        raise Throttled("the budget of 7 bytes is full")

    with pytest.raises(Throttled, match="7 bytes"):
        world.client.deadline("1s").insist(refuse)
    assert 0 < sum(world.pauses) <= 1_000_000


def test_other_errors_are_not_retried() -> None:
    world = World()

    def refuse() -> None:
        raise StaleRow("changed")

    with pytest.raises(StaleRow):
        world.client.deadline().insist(refuse)
    assert world.pauses == []


def test_a_deadline_passes() -> None:
    world = World()
    deadline = world.client.deadline("5ms")
    assert deadline.remaining_us() == 5_000
    deadline.check("the scan")
    world.clock.advance(5_001)
    assert deadline.remaining_us() == 0
    with pytest.raises(DeadlineExceeded, match="the scan"):
        deadline.check("the scan")


def test_a_pause_comes_back() -> None:
    assert pause_thread(1) is None  # type: ignore[func-returns-value]


class Line:
    """A store with one line, whose memory is as full as the test says."""

    def __init__(self, world: World, held_bytes: int) -> None:
        self.lock = threading.Lock()
        self.budget = MemoryBudget(10)
        self.budget.held_bytes = held_bytes
        self.on_full: Callable[[], None] = lambda: None
        self.line = AdmissionLine(self.lock, world.clock, self.budget, self._full)
        self.errors: list[SteleError] = []

    def _full(self) -> None:
        self.on_full()

    def write(self, ticket: AdmissionTicket | None) -> str:
        if self.errors:
            raise self.errors.pop(0)
        try:
            with self.lock:
                self.line.admit(4, ticket)
        except Throttled:
            self.line.refused()
            raise
        return "done"

    def flush(self) -> None:
        with self.lock:
            self.budget.held_bytes = 0
        self.line.look()


def test_a_write_waits_for_its_turn_and_does_not_try_again_before() -> None:
    world = World()
    store = Line(world, held_bytes=8)
    attempts: list[bool] = []

    def write(ticket: AdmissionTicket | None) -> str:
        attempts.append(ticket is not None)
        return store.write(ticket)

    refusals = iter(range(10))
    store.on_full = lambda: threading.Thread(target=store.flush).start() if next(refusals) else None
    assert world.client.deadline().insist_in_line(write, store.line.ticket) == "done"
    assert attempts == [False, True, True]
    assert world.pauses == []
    assert (store.budget.waiting, store.budget.used_bytes) == (0, 0)


def test_the_refusal_is_raised_when_its_turn_does_not_come() -> None:
    world = World()
    store = Line(world, held_bytes=8)
    with pytest.raises(Throttled, match="8 bytes are in memory"):
        world.client.deadline(0).insist_in_line(store.write, store.line.ticket)
    assert store.budget.waiting == 0


def test_a_disk_that_fails_for_a_moment_is_no_matter_of_the_line() -> None:
    world = World()
    store = Line(world, held_bytes=0)
    store.errors = [TransientIoError("eio"), TransientIoError("eio"), TransientIoError("eio")]
    assert world.client.deadline().insist_in_line(store.write, store.line.ticket) == "done"
    assert len(world.pauses) == 2, "a store with a line is asked again at once"


def test_where_there_is_no_line_refusals_are_waited_out() -> None:
    world = World()
    answers: list[SteleError | None] = [Throttled("full"), Throttled("full"), None]

    def write(ticket: AdmissionTicket | None) -> str:
        assert ticket is None
        error = answers.pop(0)
        if error is not None:
            raise error
        return "done"

    assert world.client.deadline().insist_in_line(write, lambda _timeout_us: None) == "done"
    assert len(world.pauses) == 2


@pytest.mark.parametrize("error", [StaleRow("changed"), KeyboardInterrupt()])
def test_an_error_in_its_turn_leaves_nobody_in_the_line(error: BaseException) -> None:
    world = World()
    store = Line(world, held_bytes=8)

    def write(ticket: AdmissionTicket | None) -> str:
        if ticket is not None and ticket.granted:
            raise error
        return store.write(ticket)

    refusals = iter(range(10))
    store.on_full = lambda: store.flush() if next(refusals) else None
    with pytest.raises(type(error)):
        world.client.deadline().insist_in_line(write, store.line.ticket)
    assert (store.budget.waiting, store.budget.used_bytes) == (0, 0)
