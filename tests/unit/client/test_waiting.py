"""Deadlines and retries, on a clock that only the pauses move."""

from __future__ import annotations

import datetime

import pytest

from stele.client.waiting import (
    BACKOFF,
    TIMEOUT_US_DEFAULT,
    ClientWorld,
    pause_thread,
    timeout_us,
)
from stele.env.memory import MemoryClock, SeededRandom
from stele.errors import DeadlineExceeded, InvalidArgument, StaleRow, Throttled, TransientIoError


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
