"""The three kinds of metric, safe to change from any thread.

A change takes one uncontended lock, some 100 ns: Python does not promise that ``value += n`` is one
step, and what is lost between two steps would never be found again.

**Histograms** count whole, non-negative values (microseconds, bytes, cells) in buckets whose width
grows with the value: each power of two is cut into 16 equal parts, so that a percentile read from
the buckets is off by at most 1/16 of itself, from 0 to 2⁶³. Below 32 every value has its own
bucket::

    bucket   0 … 31        the value itself
             32 … 47       32 … 63 in steps of 2
             48 … 63       64 … 127 in steps of 4, and so on

Buckets are the same everywhere, so histograms of many threads, servers or hours add up exactly.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field

SUBBUCKET_BITS = 4
SUBBUCKETS = 1 << SUBBUCKET_BITS
VALUE_MAX = (1 << 63) - 1


def bucket_of(value: int) -> int:
    """The bucket a value is counted in."""
    shift = value.bit_length() - SUBBUCKET_BITS - 1
    if shift <= 0:
        return value
    return (shift << SUBBUCKET_BITS) + (value >> shift)


def bucket_bounds(bucket: int) -> tuple[int, int]:
    """The smallest and the largest value of a bucket."""
    if bucket < 2 * SUBBUCKETS:
        return bucket, bucket
    shift = (bucket >> SUBBUCKET_BITS) - 1
    low = (bucket - (shift << SUBBUCKET_BITS)) << shift
    return low, low + (1 << shift) - 1


class Counter:
    """Something that only grows: requests, bytes, errors."""

    __slots__ = ("_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    def add(self, count: int = 1) -> None:
        assert count >= 0, "a counter never goes down"
        with self._lock:
            self._value += count

    @property
    def value(self) -> int:
        return self._value


class Gauge:
    """Something that goes up and down: memory in use, open scanners."""

    __slots__ = ("_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    def set(self, value: int) -> None:
        self._value = value

    def add(self, difference: int) -> None:
        with self._lock:
            self._value += difference

    @property
    def value(self) -> int:
        return self._value


@dataclass(frozen=True, slots=True)
class HistogramSnapshot:
    """What a histogram has counted: a value that can be added, compared and asked."""

    count: int = 0
    total: int = 0
    low: int = 0
    high: int = 0
    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> int:
        """A value that ``percent`` of all counted values do not exceed; 0 when empty.

        At most 1/16 above the exact one, and never outside what was counted.
        """
        assert 0 <= percent <= 100, percent
        wanted = max(1, -(-self.count * percent // 100))
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return max(self.low, min(self.high, bucket_bounds(bucket)[1]))
        return 0

    def merged(self, other: HistogramSnapshot) -> HistogramSnapshot:
        """Both together, as if one histogram had counted all."""
        if not self.count or not other.count:
            return self if self.count else other
        return HistogramSnapshot(
            self.count + other.count,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
            Tally(self.buckets) + Tally(other.buckets),
        )


class Histogram:
    """The distribution of a value."""

    __slots__ = ("_buckets", "_high", "_lock", "_low", "_total")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[int, int] = {}
        self._total = 0
        self._low = VALUE_MAX
        self._high = 0

    def record(self, value: int) -> None:
        """Count a value; outside of 0 … 2⁶³-1 it counts as the nearest one inside."""
        if not 0 <= value <= VALUE_MAX:
            value = min(max(value, 0), VALUE_MAX)
        bucket = bucket_of(value)
        with self._lock:
            self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
            self._total += value
            if value < self._low:
                self._low = value
            if value > self._high:
                self._high = value

    def snapshot(self) -> HistogramSnapshot:
        with self._lock:
            buckets = dict(self._buckets)
            total, low, high = self._total, self._low, self._high
        count = sum(buckets.values())
        return HistogramSnapshot(count, total, low, high, buckets) if count else HistogramSnapshot()
