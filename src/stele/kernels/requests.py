"""Requests: batches of mutations before they have a txn, checked and numbered in one pass each.

Nearly all large requests are sorted puts, and of those one pass can say that nothing is wrong with
them (``plain_requests`` takes it). Whatever it does not like is left to the checks of the model,
which know what to say about it.

A commit gives every cell its txn, and those without a timestamp the same one for it. Only these
two columns are new: the others stay the request's own memory.
"""

from __future__ import annotations

from ctypes import string_at
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
    FAMILY_CODES,
    FIXED_BYTES,
    OPS,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_OFFSETS,
    Block,
    Descriptor,
    Ints,
    describe,
)
from stele.kernels.compare import compare_bytes, compare_cells_of_row, equal_bytes
from stele.kernels.jit import bulk, callee, quick
from stele.kernels.memory import (
    address_of,
    copy_bytes,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    store_i8,
    store_i32,
    store_i64,
)
from stele.model.cells import TIMESTAMP_MAX, Op
from stele.model.limits import (
    BATCH_BYTES_MAX,
    QUALIFIER_BYTES_MAX,
    ROW_BYTES_MAX,
    VALUE_BYTES_MAX,
)
from stele.model.mutations import settle

_PUT = int(Op.PUT)

Bytes = npt.NDArray[np.uint8]

QUICK_CELLS_MAX = 16 * 1024
"""Up to here a pass takes some hundred microseconds; more would keep other threads from the GIL."""


@callee
def are_plain_puts(block: int, marks: int, names: int) -> bool:
    """Whether all are puts within all limits, in order; marks the families that they are of.

    The block has no txns, rising offsets, and so many names of families.
    """
    count = load_i64(block + 8 * COUNT)
    rows, data = load_i64(block + 8 * ROW_OFFSETS), load_i64(block + 8 * ROW_BYTES)
    qualifiers = load_i64(block + 8 * QUALIFIER_OFFSETS)
    values = load_i64(block + 8 * VALUE_OFFSETS)
    codes, ops = load_i64(block + 8 * FAMILY_CODES), load_i64(block + 8 * OPS)
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
        code = load_i16(codes + 2 * index)
        if code < 0 or code >= names:
            return False
        store_i8(marks + code, 1)
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
def _number(request: Descriptor, txn: int, columns: Ints, cells: Descriptor) -> bool:
    """Fill both columns of a commit and describe them; whether the cells are still in order."""
    source, ops, count = request[TIMESTAMPS], request[OPS], request[COUNT]
    timestamps = address_of(columns)
    txns = timestamps + 8 * count
    cells[TIMESTAMPS], cells[TXNS] = timestamps, txns
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


@quick
def _measure(descriptor: Descriptor, extent: Ints) -> None:
    """Bytes of rows, of all cells, then address and length of the first row and of the last."""
    count, rows, data = descriptor[COUNT], descriptor[ROW_OFFSETS], descriptor[ROW_BYTES]
    qualifiers, values = descriptor[QUALIFIER_OFFSETS], descriptor[VALUE_OFFSETS]
    first, last, end = load_i32(rows), load_i32(rows + 4 * count - 4), load_i32(rows + 4 * count)
    extent[0] = end - first
    extent[1] = extent[0] + count * FIXED_BYTES
    extent[1] += load_i32(qualifiers + 4 * count) - load_i32(qualifiers)
    extent[1] += load_i32(values + 4 * count) - load_i32(values)
    extent[2], extent[3] = data + first, load_i32(rows + 4) - first
    extent[4], extent[5] = data + last, end - last


@callee
def _copy_rows(block: int, rows: int, target: int, source: int, size: int) -> None:
    """Copy rows that were measured. Their offsets are read once more, and may have been changed by
    somebody who should not: they must not lead out of the copy for that."""
    count, offsets = load_i64(block + 8 * COUNT), load_i64(block + 8 * ROW_OFFSETS)
    first, data = load_i32(offsets), target + 4 * (count + 1)
    for index in range(count + 1):
        store_i32(target + 4 * index, min(max(load_i32(offsets + 4 * index) - first, 0), size))
    copy_bytes(data, source, size)
    store_i64(rows + 8 * ROW_OFFSETS, target)
    store_i64(rows + 8 * ROW_BYTES, data)
    store_i64(rows + 8 * COUNT, count)


@quick
def _copy_rows_quick(
    descriptor: Descriptor, rows: Descriptor, target: Bytes, source: int, size: int
) -> None:
    _copy_rows(address_of(descriptor), address_of(rows), address_of(target), source, size)


@bulk
def _copy_rows_bulk(
    descriptor: Descriptor, rows: Descriptor, target: Bytes, source: int, size: int
) -> None:
    _copy_rows(address_of(descriptor), address_of(rows), address_of(target), source, size)


class Extent(NamedTuple):
    """How much a request is, and from where to where it goes."""

    rows_at: int
    """Where the bytes of its rows begin."""
    rows_bytes: int
    size_bytes: int
    first_row: bytes
    last_row: bytes


def request_block(batch: pa.RecordBatch) -> Block:
    """A ``MUTATIONS`` batch of sound structure as a block, whose cells have no txn yet."""
    descriptor, families, owner = describe(batch)
    return Block(descriptor, families, owner)


def extent_of(request: Block) -> Extent:
    """The extent of a request, which has cells."""
    words = np.empty(6, np.int64)
    _measure(request.descriptor, words)
    rows_bytes, size_bytes, first, first_bytes, last, last_bytes = words.tolist()
    first_row, last_row = string_at(first, first_bytes), string_at(last, last_bytes)
    return Extent(first, rows_bytes, size_bytes, first_row, last_row)


# Memory of numpy below, not of Arrow: pieces of this size come and go with every request, and
# Arrow's pool takes milliseconds for one of them now and then.


def numbered(request: Block, txn: int) -> Block:
    """The cells of a request that commits as ``txn``.

    They are sorted again if a put without a timestamp stands beside one with a timestamp in the
    future.
    """
    columns, descriptor = np.empty(2 * request.count, np.int64), request.descriptor.copy()
    in_order = _number(request.descriptor, txn, columns, descriptor)
    cells = Block(descriptor, request.families, (request.owner, columns))
    return cells if in_order else Block.from_batch(settle(cells.batch))


def only_rows(request: Block, extent: Extent) -> Block:
    """The rows alone in memory of their own: rings keep them when the cells are long gone."""
    rows = np.zeros(DESCRIPTOR_WIDTH, np.int64)
    memory = np.empty(4 * (request.count + 1) + extent.rows_bytes, np.uint8)
    copy = _copy_rows_quick if request.count <= QUICK_CELLS_MAX else _copy_rows_bulk
    copy(request.descriptor, rows, memory, extent.rows_at, extent.rows_bytes)
    return Block(rows, (), memory)
