"""Blocks into uncompressed Parquet pages: the counterpart of ``parquet_pages``.

One call writes the bodies of all data pages of a row group, one behind the other, into memory that
is used again for the next. Numbers and bytes are copied as they lie; what is computed is

    lengths    DELTA_BINARY_PACKED: blocks of 128 deltas in four parts of 32, each part packed in as
               many bits as its largest distance from the block's smallest delta needs
    families   the hybrid of runs and packed bits that dictionary columns have; all runs or all
               packed, whichever is smaller: cells of one row stand together, so runs nearly always
    ops        widened to the 32 bits of Parquet's smallest integer

A row group may lie in several blocks, its *parts*. They have codes for the same families.
"""

from __future__ import annotations

from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_BYTES,
    VALUE_OFFSETS,
    Ints,
    Matrix,
)
from stele.kernels.jit import bulk, callee
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

DATA_PAGES = 7
"""Row, family, qualifier, timestamp, txn, op, value: in this order, one page for each."""

DELTAS = 128
"""How many deltas a block of lengths has, and ``encode_pages`` needs room for."""

_BLOCK = DELTAS
_PART = 32
_PARTS = _BLOCK // _PART
_BLOCK_HEAD_BYTES_MAX = 10 + _PARTS
_PAGE_HEAD_BYTES_MAX = 32
_PACKED_BYTES_MAX = 4
"""Of one length: deltas of 31-bit lengths are at most 32 bits apart."""
_RUN_BYTES_MAX = 5 + 2


def pages_bytes_max(cells: int, raw_bytes: int) -> int:
    """Memory that the pages of a row group may need; ``raw_bytes`` as in ``fragment_survey``."""
    blocks = -(-cells // _BLOCK)
    lengths = blocks * (_BLOCK * _PACKED_BYTES_MAX + _BLOCK_HEAD_BYTES_MAX) + _PAGE_HEAD_BYTES_MAX
    return raw_bytes + 3 * lengths + cells * (4 + _RUN_BYTES_MAX) + DATA_PAGES * 8


@callee
def put_varint(address: int, value: int) -> int:
    """Write an unsigned varint; the address behind it."""
    while value > 127:
        store_i8(address, (value & 127) | 128)
        value >>= 7
        address += 1
    store_i8(address, value)
    return address + 1


@callee
def put_zigzag(address: int, value: int) -> int:
    """Write a signed number as a varint."""
    return put_varint(address, (value << 1) ^ (value >> 63))


@callee
def _bits(value: int) -> int:
    """How many bits a number has."""
    count = 0
    while value > 0:
        value >>= 1
        count += 1
    return count


@callee
def _pack(values: int, count: int, low: int, width: int, target: int) -> int:
    """Pack a part of a block, filled up with zeros; the address behind it."""
    word, used = 0, 0
    for index in range(count):
        word |= (load_i64(values + 8 * index) - low) << used
        used += width
        if used >= 32:
            store_i32(target, word)
            target += 4
            word >>= 32
            used -= 32
    for _ in range(_PART - count):
        used += width
        if used >= 32:
            store_i32(target, word)
            target += 4
            word = 0
            used -= 32
    return target


@callee
def _put_block(deltas: int, count: int, target: int) -> int:
    """Write one block of deltas; the address behind it."""
    low = load_i64(deltas)
    high = low
    for index in range(1, count):
        delta = load_i64(deltas + 8 * index)
        low, high = min(low, delta), max(high, delta)
    target = put_zigzag(target, low)
    if low == high:
        store_i32(target, 0)
        return target + _PARTS
    widths = target
    target += _PARTS
    for part in range(_PARTS):
        first = _PART * part
        here = min(max(count - first, 0), _PART)
        largest = 0
        for index in range(first, first + here):
            largest = max(largest, load_i64(deltas + 8 * index) - low)
        width = _bits(largest)
        store_i8(widths + part, width)
        if width:
            target = _pack(deltas + 8 * first, here, low, width, target)
    return target


@callee
def _put_lengths(parts: int, count: int, column: int, cells: int, deltas: int, target: int) -> int:
    """The lengths of a column of all parts, delta by delta; the address behind them."""
    target = put_varint(target, _BLOCK)
    target = put_varint(target, _PARTS)
    target = put_varint(target, cells)
    before, waiting, is_first = 0, 0, True
    for part in range(count):
        block = parts + 8 * DESCRIPTOR_WIDTH * part
        offsets = load_i64(block + 8 * column)
        start = load_i32(offsets)
        for index in range(load_i64(block + 8 * COUNT)):
            stop = load_i32(offsets + 4 * index + 4)
            length = stop - start
            start = stop
            if is_first:
                target = put_zigzag(target, length)
                is_first = False
            else:
                store_i64(deltas + 8 * waiting, length - before)
                waiting += 1
                if waiting == _BLOCK:
                    target = _put_block(deltas, _BLOCK, target)
                    waiting = 0
            before = length
    if waiting:
        target = _put_block(deltas, waiting, target)
    return target


@callee
def _put_binary(
    parts: int, count: int, column: int, data: int, cells: int, deltas: int, target: int
) -> int:
    """A DELTA_LENGTH page: all lengths, then all bytes."""
    target = _put_lengths(parts, count, column, cells, deltas, target)
    for part in range(count):
        block = parts + 8 * DESCRIPTOR_WIDTH * part
        offsets = load_i64(block + 8 * column)
        start = load_i32(offsets)
        size = load_i32(offsets + 4 * load_i64(block + 8 * COUNT)) - start
        copy_bytes(target, load_i64(block + 8 * data) + start, size)
        target += size
    return target


@callee
def _put_words(parts: int, count: int, column: int, target: int) -> int:
    for part in range(count):
        block = parts + 8 * DESCRIPTOR_WIDTH * part
        size = 8 * load_i64(block + 8 * COUNT)
        copy_bytes(target, load_i64(block + 8 * column), size)
        target += size
    return target


@callee
def _put_ops(parts: int, count: int, target: int) -> int:
    for part in range(count):
        block = parts + 8 * DESCRIPTOR_WIDTH * part
        ops, cells = load_i64(block + 8 * OPS), load_i64(block + 8 * COUNT)
        for index in range(cells):
            store_i32(target + 4 * index, load_i8(ops + index))
        target += 4 * cells
    return target


@callee
def _put_run(code: int, run: int, width: int, target: int) -> int:
    target = put_varint(target, run << 1)
    store_i8(target, code)
    if width > 8:
        store_i8(target + 1, code >> 8)
        return target + 2
    return target + 1


@callee
def _put_runs(parts: int, count: int, width: int, target: int) -> int:
    """Dictionary codes as runs of equal ones."""
    code, run = 0, 0
    for part in range(count):
        block = parts + 8 * DESCRIPTOR_WIDTH * part
        codes = load_i64(block + 8 * FAMILY_CODES)
        for index in range(load_i64(block + 8 * COUNT)):
            here = load_i16(codes + 2 * index)
            if run and here != code:
                target = _put_run(code, run, width, target)
                run = 0
            code = here
            run += 1
    return _put_run(code, run, width, target)


@callee
def _put_packed(parts: int, count: int, cells: int, width: int, target: int) -> int:
    """Dictionary codes as one run of packed bits, filled up to a multiple of eight."""
    groups = (cells + 7) // 8
    target = put_varint(target, (groups << 1) | 1)
    end = target + groups * width
    word, used = 0, 0
    for part in range(count):
        block = parts + 8 * DESCRIPTOR_WIDTH * part
        codes = load_i64(block + 8 * FAMILY_CODES)
        for index in range(load_i64(block + 8 * COUNT)):
            word |= load_i16(codes + 2 * index) << used
            used += width
            while used >= 8:
                store_i8(target, word)
                target += 1
                word >>= 8
                used -= 8
    while target < end:
        store_i8(target, word)
        target += 1
        word = 0
    return target


@callee
def _put_families(parts: int, count: int, cells: int, families: int, target: int) -> int:
    width = max(_bits(families - 1), 1)
    store_i8(target, width)
    start = target + 1
    end = _put_runs(parts, count, width, start)
    if end - start > cells * width // 8 + _RUN_BYTES_MAX:
        end = _put_packed(parts, count, cells, width, start)
    return end


@bulk
def encode_pages(
    parts: Matrix, families: int, target: int, ends: Ints, delta_scratch: Ints
) -> None:
    """Write the data pages of a row group from ``target`` on; where each ends goes to ``ends``.

    ``parts`` are descriptors; ``target`` has room for ``pages_bytes_max``, the scratch for
    ``DELTAS`` numbers.
    """
    matrix, count = address_of(parts), len(parts)
    deltas, cells = address_of(delta_scratch), 0
    for part in range(count):
        cells += parts[part, COUNT]
    start = target
    target = _put_binary(matrix, count, ROW_OFFSETS, ROW_BYTES, cells, deltas, target)
    ends[0] = target - start
    target = _put_families(matrix, count, cells, families, target)
    ends[1] = target - start
    target = _put_binary(matrix, count, QUALIFIER_OFFSETS, QUALIFIER_BYTES, cells, deltas, target)
    ends[2] = target - start
    target = _put_words(matrix, count, TIMESTAMPS, target)
    ends[3] = target - start
    target = _put_words(matrix, count, TXNS, target)
    ends[4] = target - start
    target = _put_ops(matrix, count, target)
    ends[5] = target - start
    target = _put_binary(matrix, count, VALUE_OFFSETS, VALUE_BYTES, cells, deltas, target)
    ends[6] = target - start
