"""The hybrid clock: never back, never twice, never dragged away."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import ClockSkew, InvalidArgument, RetryLater
from stele.model.clock import TXN_MAX, HybridClock

walls = st.integers(-(2**40), 2**40)


@given(st.lists(walls, min_size=2, max_size=50))
def test_txns_increase_whatever_wall_time_does(times: list[int]) -> None:
    clock = HybridClock()
    txns = [clock.next(now) for now in times]
    assert all(before < after for before, after in itertools.pairwise(txns))
    assert all(txn >= max(now, 1) for txn, now in zip(txns, times, strict=True))
    assert clock.last == txns[-1]


def test_it_follows_wall_time_and_moves_by_one_when_it_stands_still() -> None:
    clock = HybridClock()
    assert [clock.next(now) for now in (100, 100, 50, 200)] == [100, 101, 102, 200]


@given(st.integers(0, 2**40), st.integers(0, 2**41), st.integers(0, 2**40), st.integers(0, 1000))
def test_observe(last: int, remote: int, now: int, skew: int) -> None:
    clock = HybridClock(last, max_skew_us=skew)
    if remote > last and remote - now > skew:
        with pytest.raises(ClockSkew, match=f"{remote - now} µs ahead"):
            clock.observe(remote, now)
        assert clock.last == last
    else:
        clock.observe(remote, now)
        assert clock.last == max(last, remote)
        assert clock.next(now) > remote


def test_the_limit_is_inclusive() -> None:
    clock = HybridClock(max_skew_us=10)
    assert clock.max_skew_us == 10
    clock.observe(110, 100)
    assert clock.last == 110
    with pytest.raises(ClockSkew):
        clock.observe(111, 100)
    assert clock.last == 110
    assert issubclass(ClockSkew, RetryLater)


def test_numbers_end_before_the_sentinel() -> None:
    clock = HybridClock(TXN_MAX - 1)
    assert clock.next(0) == TXN_MAX
    for now in (0, TXN_MAX, 2**64):
        with pytest.raises(ClockSkew, match="no txn is left"):
            clock.next(now)
    assert clock.last == TXN_MAX
    fresh = HybridClock()
    with pytest.raises(ClockSkew):
        fresh.next(TXN_MAX + 1)
    with pytest.raises(ClockSkew):
        fresh.observe(TXN_MAX + 1, TXN_MAX + 1)
    assert fresh.last == 0


@pytest.mark.parametrize(("last", "skew"), [(-1, 0), (TXN_MAX + 1, 0), (0, -1)])
def test_impossible_starts_are_refused(last: int, skew: int) -> None:
    with pytest.raises(InvalidArgument):
        HybridClock(last, skew)
