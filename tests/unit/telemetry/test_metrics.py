"""Counts that add up, and percentiles within their promised error."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.telemetry.metrics import (
    SUBBUCKETS,
    VALUE_MAX,
    Counter,
    Gauge,
    Histogram,
    HistogramSnapshot,
    bucket_bounds,
    bucket_of,
)

VALUES = st.one_of(st.integers(0, 100), st.integers(0, 10**7), st.integers(0, VALUE_MAX))


def recorded(values: list[int]) -> HistogramSnapshot:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram.snapshot()


def test_counters_only_grow() -> None:
    counter = Counter()
    counter.add()
    counter.add(41)
    assert counter.value == 42
    with pytest.raises(AssertionError):
        counter.add(-1)


def test_gauges_go_both_ways() -> None:
    gauge = Gauge()
    gauge.set(10)
    gauge.add(-15)
    assert gauge.value == -5


def test_no_count_is_lost_between_threads() -> None:
    counter, gauge, histogram = Counter(), Gauge(), Histogram()

    def work() -> None:
        for number in range(5_000):
            counter.add()
            gauge.add(1 if number % 2 else -1)
            histogram.record(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = histogram.snapshot()
    assert (counter.value, gauge.value) == (20_000, 0)
    assert (seen.count, seen.total) == (20_000, 4 * sum(range(5_000)))


def test_buckets_as_drawn() -> None:
    assert [bucket_of(value) for value in (0, 1, 31, 32, 33, 63, 64, 127, 128)] == [
        0, 1, 31, 32, 32, 47, 48, 63, 64,
    ]  # fmt: skip
    assert [bucket_bounds(bucket) for bucket in (5, 31, 32, 47, 48)] == [
        (5, 5), (31, 31), (32, 33), (62, 63), (64, 67),
    ]  # fmt: skip


@given(VALUES)
def test_a_value_lies_in_its_narrow_bucket(value: int) -> None:
    low, high = bucket_bounds(bucket_of(value))
    assert low <= value <= high
    assert (high - low) * SUBBUCKETS <= low
    assert bucket_of(low) == bucket_of(high) == bucket_of(value)
    assert high == VALUE_MAX or bucket_of(high + 1) == bucket_of(value) + 1


@given(st.lists(VALUES, min_size=1, max_size=60), st.floats(0, 100))
def test_percentiles_against_the_sorted_values(values: list[int], percent: float) -> None:
    exact = sorted(values)[max(1, int(-(-len(values) * percent // 100))) - 1]
    found = recorded(values).percentile(percent)
    assert exact <= found <= exact + exact // SUBBUCKETS
    assert min(values) <= found <= max(values)


@given(st.lists(VALUES, max_size=30), st.lists(VALUES, max_size=30))
def test_histograms_add_up(one: list[int], two: list[int]) -> None:
    assert recorded(one).merged(recorded(two)) == recorded(one + two)


def test_an_empty_histogram_is_all_zeros() -> None:
    empty = Histogram().snapshot()
    assert (empty, empty.mean, empty.percentile(99)) == (HistogramSnapshot(), 0.0, 0)


def test_values_outside_count_as_the_nearest_inside() -> None:
    seen = recorded([-5, VALUE_MAX * 4])
    assert (seen.low, seen.high, seen.count) == (0, VALUE_MAX, 2)
    assert recorded([2, 4]).mean == 3.0
