"""Watermarks: they follow each other, never go back, and wake whom they reach, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import ClockSkew
from stele.model.clock import HybridClock
from stele.storage.log_sequencer import Callback, Sequencer


def committed(sequencer: Sequencer, now_us: int = 0) -> int:
    txn = sequencer.next(now_us)
    sequencer.commit(txn)
    return txn


def test_a_new_log_starts_above_the_old_one() -> None:
    sequencer = Sequencer(HybridClock(last=100))
    assert (sequencer.assigned, sequencer.committed, sequencer.durable) == (100, 100, 100)
    assert committed(sequencer) == 101
    assert (sequencer.committed, sequencer.durable) == (101, 100)


def test_txns_follow_the_wall_clock_and_other_clocks() -> None:
    sequencer = Sequencer(HybridClock(max_skew_us=50))
    assert committed(sequencer, 1_000) == 1_000
    sequencer.observe(1_030, 1_000)
    assert committed(sequencer, 1_001) == 1_031
    with pytest.raises(ClockSkew):
        sequencer.observe(2_000, 1_000)


def test_callbacks_come_when_their_txn_is_reached_and_in_order() -> None:
    sequencer = Sequencer(HybridClock())
    for _ in range(5):
        committed(sequencer)
    told: list[str] = []

    def tell(name: str) -> Callback:
        return lambda: told.append(name)

    for txn, name in [(3, "c"), (2, "b"), (3, "d"), (5, "e"), (1, "a")]:
        assert not sequencer.when_durable(txn, tell(name))
    for callback in sequencer.mark_durable(3):
        callback()
    assert told == ["a", "b", "c", "d"]
    assert sequencer.waiting == 1
    assert sequencer.when_durable(2, tell("late"))
    assert sequencer.mark_durable(2) == []
    assert sequencer.durable == 3


def test_reading_above_everything_queued_takes_a_clock_entry() -> None:
    sequencer = Sequencer(HybridClock())
    txn = committed(sequencer)
    assert not sequencer.needs_clock_entry(txn)
    assert sequencer.needs_clock_entry(txn + 1)


def test_nobody_waits_for_what_was_refused() -> None:
    sequencer = Sequencer(HybridClock())
    refused = committed(sequencer)
    told: list[int] = []
    sequencer.when_durable(9, lambda: told.append(9))
    sequencer.when_durable(1, lambda: told.append(1))
    for callback in sequencer.refuse():
        callback()
    assert told == [1, 9]
    assert sequencer.waiting == 0
    assert sequencer.when_durable(refused, lambda: told.append(refused))
    assert sequencer.durable < refused
    later = committed(sequencer)
    assert not sequencer.when_durable(later, lambda: told.append(later))
    for callback in sequencer.mark_durable(later):
        callback()
    assert told == [1, 9, later]


def test_durable_does_not_overtake() -> None:
    sequencer = Sequencer(HybridClock())
    with pytest.raises(AssertionError, match="overtake"):
        sequencer.mark_durable(1)


def test_commits_come_in_order() -> None:
    sequencer = Sequencer(HybridClock())
    first, second = sequencer.next(0), sequencer.next(0)
    sequencer.commit(second)
    with pytest.raises(AssertionError, match="order"):
        sequencer.commit(first)


@given(st.lists(st.tuples(st.sampled_from(["commit", "durable", "wait"]), st.integers(0, 30))))
def test_the_marks_follow_each_other(actions: list[tuple[str, int]]) -> None:
    sequencer = Sequencer(HybridClock())
    waiting: set[int] = set()
    for action, number in actions:
        before = (sequencer.committed, sequencer.durable)
        if action == "commit":
            committed(sequencer, number)
        elif action == "wait":
            if not sequencer.when_durable(number, lambda txn=number: waiting.discard(txn)):  # type: ignore[misc]
                waiting.add(number)
        else:
            for callback in sequencer.mark_durable(min(number, sequencer.committed)):
                callback()
        assert before <= (sequencer.committed, sequencer.durable)
        assert sequencer.durable <= sequencer.committed <= sequencer.assigned
        assert all(txn > sequencer.durable for txn in waiting)
