"""Unions of byte ranges as kernels see them: what equality, prefixes and intervals all are.

A list of ranges is sorted and its ranges lie apart, so one bisection finds the only range that may
hold a string. In memory, all int64:

    list     number of ranges, address of the ranges
    range    address and length of the start, address and length of the end (-1: no end)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stele.kernels.block import Ints
from stele.kernels.compare import compare_names
from stele.kernels.jit import callee
from stele.kernels.memory import load_i64
from stele.model.ranges import RowRange, normalise

LIST_BYTES = 16
RANGE_BYTES = 32
NO_END = -1


@callee
def in_ranges(ranges: int, string: int, length: int) -> bool:
    """Whether a string lies in one of the ranges of a list."""
    first = load_i64(ranges + 8)
    low, high = 0, load_i64(ranges)
    while low < high:
        middle = (low + high) >> 1
        entry = first + RANGE_BYTES * middle
        if compare_names(load_i64(entry), load_i64(entry + 8), string, length) <= 0:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return False
    entry = first + RANGE_BYTES * low - RANGE_BYTES
    end_length = load_i64(entry + 24)
    if end_length == NO_END:
        return True
    return compare_names(string, length, load_i64(entry + 16), end_length) < 0


class ByteRanges:
    """Several lists of ranges in one piece of memory, one after the other.

    ``address`` is where the first list stands; ``LIST_BYTES`` further the next.
    """

    __slots__ = ("_lists", "_ranges", "_text", "address", "count")

    def __init__(self, lists: Sequence[Sequence[RowRange]]):
        ordered = [normalise(ranges) for ranges in lists]
        flat = [one for ranges in ordered for one in ranges]
        self.count = len(ordered)
        self._text = np.frombuffer(
            b"".join(one.start + (one.end or b"") for one in flat) or b"\x00", np.uint8
        ).copy()
        self._ranges = self._describe(flat)
        starts = np.cumsum([0, *map(len, ordered)])[: self.count]
        self._lists: Ints = np.zeros((max(self.count, 1), 2), np.int64)
        self._lists[: self.count, 0] = [len(ranges) for ranges in ordered]
        self._lists[: self.count, 1] = self._ranges.ctypes.data + RANGE_BYTES * starts
        self.address: int = self._lists.ctypes.data

    def _describe(self, flat: Sequence[RowRange]) -> Ints:
        described = np.zeros((max(len(flat), 1), RANGE_BYTES // 8), np.int64)
        at = self._text.ctypes.data
        for number, one in enumerate(flat):
            end = NO_END if one.end is None else len(one.end)
            described[number] = (at, len(one.start), at + len(one.start), end)
            at += len(one.start) + max(end, 0)
        return described
