"""Which part of a load a row belongs to: cuts chosen from samples, and SQL that finds the part.

Parts are ranges of rows between *cuts*: the borders of tablets, and more of them where tablets are
fewer or larger than tasks should be. Spark moves every row to its part by number; the number comes
from a balanced tree of comparisons, which costs a row as many of them as a binary search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

ROWS_PER_PART = 2_000_000
"""Rows that one task sorts and writes, about: more tasks than processors if there are more."""

ROWS_PER_NEW_TABLET = 250_000
"""Below this a new table is better off with fewer tablets."""

SAMPLES_PER_PARTITION = 1_000


@dataclass(frozen=True, slots=True)
class Sample:
    """A row key, and how many rows it speaks for."""

    row: bytes
    rows: int


class Sampler:
    """Evenly spaced keys of a stream, never more than twice as many as wanted."""

    def __init__(self, samples: int = SAMPLES_PER_PARTITION):
        self._samples = samples
        self._step = 1
        self._seen = 0
        self._rows: list[bytes] = []

    def add(self, rows: pa.Array) -> None:
        """More keys of the stream."""
        first = -self._seen % self._step
        chosen = pa.array(np.arange(first, len(rows), self._step))
        self._rows.extend(rows.take(chosen).to_pylist())
        self._seen += len(rows)
        while len(self._rows) > 2 * self._samples:
            self._rows = self._rows[::2]
            self._step *= 2

    def samples(self) -> list[Sample]:
        """What was kept; together they speak for every key that was seen."""
        last = self._seen - self._step * (len(self._rows) - 1)
        sizes = [self._step] * (len(self._rows) - 1) + [last]
        return [Sample(row, rows) for row, rows in zip(self._rows, sizes, strict=False)]


def wanted_parts(rows: int, tablets: int, parallelism: int) -> int:
    """How many parts a load of so many rows is cut into: all processors are busy to the end."""
    if rows <= parallelism:
        return max(tablets, rows, 1)
    rounds = -(-rows // (ROWS_PER_PART * parallelism))
    return max(tablets, rounds * parallelism)


def new_tablets(rows: int, parts: int) -> int:
    """How many tablets a table that is still empty begins with."""
    return max(1, min(parts, rows // ROWS_PER_NEW_TABLET))


def even_cuts(samples: Iterable[Sample], parts: int) -> list[bytes]:
    """Rows that cut what was sampled into parts of about equal size; fewer if keys repeat."""
    ordered = sorted(samples, key=lambda sample: sample.row)
    total = sum(sample.rows for sample in ordered)
    cuts: list[bytes] = []
    passed = 0
    for sample in ordered:
        due = len(cuts) + 1 < parts and passed * parts >= total * (len(cuts) + 1)
        if due and passed and (not cuts or sample.row > cuts[-1]) and sample.row > ordered[0].row:
            cuts.append(sample.row)
        passed += sample.rows
    return cuts


def part_number(column: str, cuts: Sequence[bytes]) -> str:
    """SQL for the number of the part that a key is in: 0 below the first cut, and so on.

    >>> part_number("`row`", [b"m"])
    "CASE WHEN `row` < X'6d' THEN 0 ELSE 1 END"
    """

    def tree(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below, above = tree(low, middle), tree(middle + 1, high)
        return f"CASE WHEN {column} < X'{cuts[middle].hex()}' THEN {below} ELSE {above} END"

    return tree(0, len(cuts))
