from __future__ import annotations

import threading

import pytest

from stele.client.latch import Latch
from stele.errors import DeadlineExceeded, OutOfSpace, SteleError


def test_a_value_is_waited_for_and_stays() -> None:
    latch: Latch[int] = Latch("a number")
    heard: list[SteleError | None] = []
    latch.then(heard.append)
    assert (latch.is_open, latch.value) == (False, None)
    threading.Timer(0.01, latch.give, [7]).start()
    assert latch.wait(None) == latch.wait(0) == 7
    assert (latch.is_open, latch.value) == (True, 7)
    latch.then(heard.append)
    assert heard == [None, None]


def test_an_error_is_raised_as_a_copy_by_each() -> None:
    latch: Latch[int] = Latch("a number")
    heard: list[SteleError | None] = []
    latch.then(heard.append)
    full = OutOfSpace("full")
    latch.fail(full)
    raised = []
    for _ in range(2):
        with pytest.raises(OutOfSpace, match="full") as info:
            latch.wait(0)
        raised.append(info.value)
    assert len({id(full), id(heard[0]), *map(id, raised)}) == 4


def test_what_does_not_come_in_time_is_named() -> None:
    with pytest.raises(DeadlineExceeded, match="a number did not come"):
        Latch("a number").wait(1_000)


def test_there_is_one_answer() -> None:
    latch: Latch[int] = Latch("a number")
    latch.give(1)
    with pytest.raises(AssertionError, match="one answer"):
        latch.give(2)
