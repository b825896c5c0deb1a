"""Finding rows in a block by bisection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stele.kernels.block import COUNT, Block, Descriptor, Ints
from stele.kernels.compare import compare_row, prefix_after, row_address, row_end, row_length
from stele.kernels.jit import bulk, callee, quick
from stele.kernels.memory import Word, address_of, load_i32
from stele.model.ranges import RowRange

GALLOP_CELLS = 8
"""The first step of a search around a guess: a few rows."""


@callee
def find_row(block: int, count: int, row: int, length: int, above: int) -> int:
    """The first of ``count`` cells whose row is not below a key; with ``above`` 1, is above it."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if compare_row(block, middle, row, length) < above:
            low = middle + 1
        else:
            high = middle
    return low


@callee
def _is_below(block: int, index: int, row: int, length: int, prefix: Word, skip: int) -> bool:
    """Whether the row of a cell is below a key whose prefix after ``skip`` bytes is known."""
    own = prefix_after(row_address(block, index), row_length(block, index), skip)
    if own != prefix:
        return bool(own < prefix)
    return compare_row(block, index, row, length) < 0


@callee
def find_row_near(
    block: int, count: int, row: int, length: int, prefix: Word, skip: int, guess: int
) -> int:
    """Like :func:`find_row` with ``above`` 0, starting at a cell that is probably close.

    From the guess it gallops, in steps that double, towards the key, and then bisects. Memory is
    what a search waits for: this touches a few neighbouring lines of it, bisection of the whole
    block two dozen that lie far apart. All rows of the block share ``skip`` bytes with the key.
    """
    low, high, step = 0, count, GALLOP_CELLS
    if _is_below(block, guess, row, length, prefix, skip):
        low = guess + 1
        while low + step < count and _is_below(block, low + step, row, length, prefix, skip):
            low += step + 1
            step *= 2
        high = min(low + step, count)
    else:
        high = guess
        while high - step > 0 and not _is_below(block, high - step, row, length, prefix, skip):
            high -= step
            step *= 2
        low = max(high - step, 0)
    while low < high:
        middle = (low + high) >> 1
        if _is_below(block, middle, row, length, prefix, skip):
            low = middle + 1
        else:
            high = middle
    return low


@quick
def _find_row(descriptor: Descriptor, row: bytes, above: int) -> int:
    block = address_of(descriptor)
    return find_row(block, descriptor[COUNT], address_of(row), len(row), above)


@bulk
def _find_rows(descriptor: Descriptor, offsets: int, data: int, starts: Ints, stops: Ints) -> None:
    block, count = address_of(descriptor), descriptor[COUNT]
    for number in range(len(starts)):
        begin = load_i32(offsets + 4 * number)
        length = load_i32(offsets + 4 * number + 4) - begin
        start = find_row(block, count, data + begin, length, 0)
        stop = start
        if start < count and compare_row(block, start, data + begin, length) == 0:
            stop = row_end(block, start, count)
        starts[number], stops[number] = start, stop


def row_lower_bound(block: Block, row: bytes) -> int:
    """The first cell whose row is ``row`` or above it."""
    return _find_row(block.descriptor, row, 0)


def row_upper_bound(block: Block, row: bytes) -> int:
    """The first cell whose row is above ``row``."""
    return _find_row(block.descriptor, row, 1)


def slice_rows(block: Block, rows: RowRange) -> Block:
    """The part of a block that lies in a range of rows, without a copy."""
    start = row_lower_bound(block, rows.start) if rows.start else 0
    stop = block.count if rows.end is None else row_lower_bound(block, rows.end)
    if start == 0 and stop == block.count:
        return block
    return block.slice(start, max(start, stop))


def row_spans(block: Block, rows: Sequence[bytes] | pa.BinaryArray) -> tuple[Ints, Ints]:
    """For each key where its cells begin and end; the two are equal where there are none."""
    keys = BinaryKeys(rows)
    starts, stops = np.empty(keys.count, np.int64), np.empty(keys.count, np.int64)
    _find_rows(block.descriptor, keys.offsets, keys.data, starts, stops)
    return starts, stops


class BinaryKeys:
    """Many keys for a kernel: the addresses of an Arrow array, and the array that owns them."""

    __slots__ = ("count", "data", "offsets", "owner")

    def __init__(self, keys: Sequence[bytes] | pa.BinaryArray):
        self.owner = keys if isinstance(keys, pa.BinaryArray) else pa.array(keys, pa.binary())
        self.count = len(self.owner)
        _, offsets, data = self.owner.buffers()
        self.offsets = 0 if offsets is None else offsets.address + 4 * self.owner.offset
        self.data = 0 if data is None else data.address
