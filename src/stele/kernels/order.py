"""Checking the order of cells, and finding where rows begin: one pass over neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.kernels.block import COUNT, ROW_BYTES, ROW_OFFSETS, Block, Descriptor, describe
from stele.kernels.compare import compare_bytes, compare_cells_of_row, equal_bytes, row_end
from stele.kernels.jit import bulk, callee, quick
from stele.kernels.memory import address_of, load_i32, load_i64

IN_ORDER = -1

QUICK_CELLS_MAX = 1_024
"""Up to here a kernel keeps the GIL: it would take longer to get it back."""


@callee
def _find_disorder(block: int) -> int:
    count = load_i64(block + 8 * COUNT)
    offsets, data = load_i64(block + 8 * ROW_OFFSETS), load_i64(block + 8 * ROW_BYTES)
    if count == 0:
        return IN_ORDER
    begin, end = load_i32(offsets), load_i32(offsets + 4)
    for index in range(1, count):
        after = load_i32(offsets + 4 * index + 4)
        length = end - begin
        if after - end == length and equal_bytes(data + begin, data + end, length):
            order = compare_cells_of_row(block, index - 1, index)
        else:
            order = compare_bytes(data + begin, length, data + end, after - end)
        if order >= 0:
            return index
        begin, end = end, after
    return IN_ORDER


@quick
def _find_disorder_quick(descriptor: Descriptor) -> int:
    return _find_disorder(address_of(descriptor))


@bulk
def _find_disorder_bulk(descriptor: Descriptor) -> int:
    return _find_disorder(address_of(descriptor))


@bulk
def _find_row_starts(descriptor: Descriptor, starts: npt.NDArray[np.int32]) -> int:
    block, count, rows, index = address_of(descriptor), descriptor[COUNT], 0, 0
    while index < count:
        starts[rows] = index
        rows += 1
        index = row_end(block, index, count)
    return rows


def first_disorder(batch: pa.RecordBatch) -> int:
    """Index of the first cell that is not above the one before it; -1 when all ascend.

    For ``CELLS`` and for ``MUTATIONS``, whose structure has been validated.
    """
    descriptor, _, owner = describe(batch)
    disorder = _disorder(descriptor)
    del owner  # alive until here: the family codes may be a copy of their own
    return disorder


def block_disorder(block: Block) -> int:
    """Like :func:`first_disorder`, of a block."""
    return _disorder(block.descriptor)


def _disorder(descriptor: Descriptor) -> int:
    if descriptor[COUNT] <= QUICK_CELLS_MAX:
        return _find_disorder_quick(descriptor)
    return _find_disorder_bulk(descriptor)


def row_starts(block: Block) -> npt.NDArray[np.int32]:
    """The index of the first cell of each row."""
    starts = np.empty(block.count, np.int32)
    return starts[: _find_row_starts(block.descriptor, starts)]
