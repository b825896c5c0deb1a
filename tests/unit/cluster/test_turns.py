"""How long a change waits for others."""

from __future__ import annotations

import threading

import pytest

from stele.cluster.turns import Turn
from stele.env.memory import MemoryClock
from stele.errors import DeadlineExceeded


def test_a_turn_bounds_all_waits_of_a_call_together() -> None:
    clock = MemoryClock()
    turn = Turn(clock, 3_000_000)
    assert turn.left_s == 3.0
    clock.advance(2_000_000)
    assert turn.left_s == 1.0
    clock.advance(5_000_000)
    assert turn.left_s == 0.0


def test_what_is_free_is_taken_even_when_the_time_is_over() -> None:
    turn = Turn(MemoryClock(), 0)
    lock = threading.Lock()
    turn.acquire(lock, "somebody")
    assert lock.locked()
    with pytest.raises(DeadlineExceeded, match="somebody for 0 s: nothing was changed"):
        turn.acquire(lock, "somebody")
    condition = threading.Condition()
    with condition:
        turn.wait_for(condition, lambda: True, "a flush")
        with pytest.raises(DeadlineExceeded, match="a flush for 0 s"):
            turn.wait_for(condition, lambda: False, "a flush")
