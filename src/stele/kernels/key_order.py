"""Putting keys into order: by numbers, where these tell them apart.

Comparing keys as objects of Python one by one takes longer than reading the rows they name. The
eight bytes after what all keys have in common, as numbers, are sorted by one call; keys order like
these numbers wherever they differ. Where some are equal, Python compares the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.kernels.block import Ints
from stele.kernels.compare import compare_bytes, prefix_after, shared_length
from stele.kernels.jit import bulk
from stele.kernels.memory import load_i32
from stele.kernels.search import BinaryKeys


@bulk
def _fill_numbers(offsets: int, data: int, numbers: npt.NDArray[np.uint64]) -> None:
    """Number keys by the eight bytes after what all of them have in common."""
    first = data + load_i32(offsets)
    common = load_i32(offsets + 4) - load_i32(offsets)
    for number in range(1, len(numbers)):
        begin, end = load_i32(offsets + 4 * number), load_i32(offsets + 4 * number + 4)
        common = shared_length(first, common, data + begin, end - begin)
    for number in range(len(numbers)):
        begin, end = load_i32(offsets + 4 * number), load_i32(offsets + 4 * number + 4)
        numbers[number] = prefix_after(data + begin, end - begin, common)


@bulk
def _keep_distinct(offsets: int, data: int, numbers: npt.NDArray[np.uint64], order: Ints) -> int:
    """Leave each key once in ``order``; returns how many, or -1 if numbers do not tell them apart.

    Equal keys have equal numbers and so stand together, unless another one is among them.
    """
    kept = 1
    for at in range(1, len(order)):
        this, before = order[at], order[kept - 1]
        if numbers[this] == numbers[before]:
            begin, other = load_i32(offsets + 4 * this), load_i32(offsets + 4 * before)
            length = load_i32(offsets + 4 * this + 4) - begin
            other_length = load_i32(offsets + 4 * before + 4) - other
            if compare_bytes(data + begin, length, data + other, other_length) != 0:
                return -1
        else:
            order[kept] = this
            kept += 1
    return kept


def in_order(keys: Sequence[bytes]) -> pa.BinaryArray:
    """Keys in ascending order, each once."""
    given = BinaryKeys(keys)
    if given.count < 2:
        return given.owner
    numbers = np.empty(given.count, np.uint64)
    _fill_numbers(given.offsets, given.data, numbers)
    order = np.argsort(numbers)
    kept = _keep_distinct(given.offsets, given.data, numbers, order)
    if kept < 0:
        return pa.array(sorted(set(keys)), pa.binary())
    return given.owner.take(pa.array(order[:kept]))
