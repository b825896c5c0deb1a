"""Requests: batches of mutations before they have a txn, checked and numbered in one pass each.

Nearly all large requests are sorted puts, and of those one pass can say that nothing is wrong with
them. Whatever it does not like is left to the checks of the model, which know what to say about it.

A commit gives every cell its txn, and those without a timestamp the same one for it. Only these
two columns are new: the others stay the request's own memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.kernels.block import (
    COUNT,
    FAMILY_CODES,
    OPS,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_OFFSETS,
    Block,
    Descriptor,
    describe,
)
from stele.kernels.compare import compare_bytes, compare_cells_of_row, equal_bytes
from stele.kernels.jit import quick
from stele.kernels.memory import (
    address_of,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    store_i8,
    store_i64,
)
from stele.model.cells import TIMESTAMP_MAX, Op
from stele.model.limits import (
    BATCH_BYTES_MAX,
    QUALIFIER_BYTES_MAX,
    ROW_BYTES_MAX,
    VALUE_BYTES_MAX,
)

_PUT = int(Op.PUT)


@quick
def _are_plain_puts(descriptor: Descriptor, used: npt.NDArray[np.uint8]) -> bool:
    """Whether all are puts within all limits, in order; marks the families that they are of."""
    block, count = address_of(descriptor), descriptor[COUNT]
    rows, data = descriptor[ROW_OFFSETS], descriptor[ROW_BYTES]
    qualifiers, values = descriptor[QUALIFIER_OFFSETS], descriptor[VALUE_OFFSETS]
    codes, ops, marks = descriptor[FAMILY_CODES], descriptor[OPS], address_of(used)
    size = load_i32(rows + 4 * count) - load_i32(rows)
    size += load_i32(qualifiers + 4 * count) - load_i32(qualifiers)
    size += load_i32(values + 4 * count) - load_i32(values)
    if size > BATCH_BYTES_MAX:
        return False
    before, begin = 0, load_i32(rows)
    for index in range(count):
        end = load_i32(rows + 4 * index + 4)
        length, at = end - begin, 4 * index
        if load_i8(ops + index) != _PUT or length <= 0 or length > ROW_BYTES_MAX:
            return False
        if load_i32(qualifiers + at + 4) - load_i32(qualifiers + at) > QUALIFIER_BYTES_MAX:
            return False
        if load_i32(values + at + 4) - load_i32(values + at) > VALUE_BYTES_MAX:
            return False
        store_i8(marks + load_i16(codes + 2 * index), 1)
        if index > 0:
            if begin - before == length and equal_bytes(data + before, data + begin, length):
                order = compare_cells_of_row(block, index - 1, index)
            else:
                order = compare_bytes(data + before, begin - before, data + begin, length)
            if order >= 0:
                return False
        before, begin = begin, end
    return True


@quick
def _number(descriptor: Descriptor, txn: int, timestamps: int, txns: int) -> bool:
    """Fill both columns of a commit; whether the cells are still in order."""
    source, ops, count = descriptor[TIMESTAMPS], descriptor[OPS], descriptor[COUNT]
    moved, ahead = False, False
    for index in range(count):
        timestamp = load_i64(source + 8 * index)
        if timestamp == TIMESTAMP_MAX:
            if load_i8(ops + index) == _PUT:
                timestamp = txn
                moved = True
        elif timestamp >= txn:
            ahead = True
        store_i64(timestamps + 8 * index, timestamp)
        store_i64(txns + 8 * index, txn)
    return not (moved and ahead)


def request_block(batch: pa.RecordBatch) -> Block:
    """A ``MUTATIONS`` batch of sound structure as a block, whose cells have no txn yet."""
    descriptor, families, owner = describe(batch)
    return Block(descriptor, families, owner)


def plain_families(request: Block) -> list[str] | None:
    """The families of a request that is nothing but legal puts in order, else ``None``.

    Whether the table has the families is not looked at.
    """
    used = np.zeros(max(len(request.families), 1), np.uint8)
    if not request.count or not _are_plain_puts(request.descriptor, used):
        return None
    return [name for name, mark in zip(request.families, used.tolist(), strict=False) if mark]


def numbered(request: Block, txn: int) -> Block | None:
    """The cells of a request that commits as ``txn``.

    ``None`` if they have to be sorted again: a put without a timestamp stands beside one with a
    timestamp in the future.
    """
    width = 8 * request.count
    columns = pa.allocate_buffer(2 * width)
    descriptor = request.descriptor.copy()
    descriptor[TIMESTAMPS], descriptor[TXNS] = columns.address, columns.address + width
    in_order = _number(request.descriptor, txn, columns.address, columns.address + width)
    return Block(descriptor, request.families, (request.owner, columns)) if in_order else None
