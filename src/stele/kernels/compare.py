"""Comparing keys at raw addresses: the comparisons every other kernel is made of.

Bytes are compared eight at a time as big-endian numbers, which order like the bytes themselves.
No comparison reads outside the strings it is given: a tail is covered by a word that ends where
the string ends and overlaps what is already known to be equal, and a string shorter than a word is
put together from its halves.
"""

from __future__ import annotations

import numpy as np

from stele.kernels.block import (
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
)
from stele.kernels.jit import callee, inlined
from stele.kernels.memory import (
    Word,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u16_big_endian,
    load_u32_big_endian,
    load_u64,
    load_u64_big_endian,
)


@inlined
def leading_bytes(address: int, length: int) -> Word:
    """The first eight bytes as a big-endian number; a shorter string is filled up with zeros."""
    if length >= 8:
        return load_u64_big_endian(address)
    if length >= 4:
        high = load_u32_big_endian(address) << np.uint64(32)
        low = load_u32_big_endian(address + length - 4)
        return high | (low << np.uint64(8 * (8 - length)))
    if length >= 2:
        high = load_u16_big_endian(address) << np.uint64(48)
        low = load_u16_big_endian(address + length - 2)
        return high | (low << np.uint64(8 * (8 - length)))
    if length == 1:
        return np.uint64(load_u8(address)) << np.uint64(56)
    return np.uint64(0)


@inlined
def prefix_after(address: int, length: int, skip: int) -> Word:
    """Like :func:`leading_bytes`, of what follows the first ``skip`` bytes (all rows share them).

    Rows order like these numbers wherever the numbers differ; equal ones say nothing.
    """
    rest = length - skip
    if rest <= 0:
        return np.uint64(0)
    if rest >= 8:
        return load_u64_big_endian(address + skip)
    if length >= 8:
        return load_u64_big_endian(address + length - 8) << np.uint64(8 * (8 - rest))
    return leading_bytes(address + skip, rest)


@callee
def compare_bytes(a: int, a_length: int, b: int, b_length: int) -> int:
    """-1, 0 or 1, as byte strings order."""
    shared = min(a_length, b_length)
    done = 0
    while done + 8 <= shared:
        left, right = load_u64_big_endian(a + done), load_u64_big_endian(b + done)
        if left != right:
            return -1 if left < right else 1
        done += 8
    if done < shared:
        if shared >= 8:
            left, right = load_u64_big_endian(a + shared - 8), load_u64_big_endian(b + shared - 8)
        else:
            left, right = leading_bytes(a, shared), leading_bytes(b, shared)
        if left != right:
            return -1 if left < right else 1
    if a_length == b_length:
        return 0
    return -1 if a_length < b_length else 1


@inlined
def compare_names(a: int, a_length: int, b: int, b_length: int) -> int:
    """Like :func:`compare_bytes`, quicker for strings that tend to differ in their first word."""
    left, right = leading_bytes(a, a_length), leading_bytes(b, b_length)
    if left != right:
        return -1 if left < right else 1
    if a_length == b_length and a_length <= 8:
        return 0
    return compare_bytes(a, a_length, b, b_length)


@inlined
def equal_bytes(a: int, b: int, length: int) -> bool:
    """Whether two strings of one length are equal; looks at their ends first.

    Neighbouring keys are sorted, so where they differ they tend to differ in their last bytes.
    """
    if length >= 8:
        if load_u64(a + length - 8) != load_u64(b + length - 8):
            return False
        done = 0
        while done + 8 < length:
            if load_u64(a + done) != load_u64(b + done):
                return False
            done += 8
        return True
    return bool(leading_bytes(a, length) == leading_bytes(b, length))


@callee
def shared_length(a: int, a_length: int, b: int, b_length: int) -> int:
    """How many bytes two strings have in common from their start."""
    shared = min(a_length, b_length)
    done = 0
    while done < shared and load_u8(a + done) == load_u8(b + done):
        done += 1
    return done


# Of a block: ``block`` is the address of its descriptor, ``index`` a cell in it.


@inlined
def row_address(block: int, index: int) -> int:
    """Where the row key of a cell begins."""
    return load_i64(block + 8 * ROW_BYTES) + load_i32(load_i64(block + 8 * ROW_OFFSETS) + 4 * index)


@inlined
def row_length(block: int, index: int) -> int:
    """How long the row key of a cell is."""
    offsets = load_i64(block + 8 * ROW_OFFSETS) + 4 * index
    return load_i32(offsets + 4) - load_i32(offsets)


@callee
def same_row(block: int, index: int, other: int) -> bool:
    """Whether two cells of one block belong to one row."""
    offsets = load_i64(block + 8 * ROW_OFFSETS)
    start, start_other = load_i32(offsets + 4 * index), load_i32(offsets + 4 * other)
    length = load_i32(offsets + 4 * index + 4) - start
    if load_i32(offsets + 4 * other + 4) - start_other != length:
        return False
    data = load_i64(block + 8 * ROW_BYTES)
    return equal_bytes(data + start, data + start_other, length)


@inlined
def row_end(block: int, index: int, count: int) -> int:
    """The first cell after ``index`` that belongs to another row, or ``count``."""
    offsets = load_i64(block + 8 * ROW_OFFSETS)
    data = load_i64(block + 8 * ROW_BYTES)
    start = load_i32(offsets + 4 * index)
    begin = load_i32(offsets + 4 * index + 4)
    length = begin - start
    end = index + 1
    while end < count:
        after = load_i32(offsets + 4 * end + 4)
        if after - begin != length or not equal_bytes(data + start, data + begin, length):
            break
        begin = after
        end += 1
    return end


@callee
def compare_row(block: int, index: int, row: int, length: int) -> int:
    """The row of a cell against a key: -1, 0 or 1."""
    offsets = load_i64(block + 8 * ROW_OFFSETS) + 4 * index
    start = load_i32(offsets)
    own = load_i64(block + 8 * ROW_BYTES) + start
    return compare_bytes(own, load_i32(offsets + 4) - start, row, length)


@inlined
def compare_cells_of_row(block: int, a: int, b: int) -> int:
    """Two cells of one row and one block in cell order: -1, 0 or 1.

    A block without txns (mutations that have not committed) has address 0 for them.
    """
    codes = load_i64(block + 8 * FAMILY_CODES)
    family_a, family_b = load_i16(codes + 2 * a), load_i16(codes + 2 * b)
    if family_a != family_b:
        return -1 if family_a < family_b else 1
    ops = load_i64(block + 8 * OPS)
    op_a, op_b = load_i8(ops + a), load_i8(ops + b)
    class_a, class_b = min(op_a, 2), min(op_b, 2)
    if class_a != class_b:
        return -1 if class_a < class_b else 1
    offsets = load_i64(block + 8 * QUALIFIER_OFFSETS)
    data = load_i64(block + 8 * QUALIFIER_BYTES)
    start_a, start_b = load_i32(offsets + 4 * a), load_i32(offsets + 4 * b)
    order = compare_names(
        data + start_a,
        load_i32(offsets + 4 * a + 4) - start_a,
        data + start_b,
        load_i32(offsets + 4 * b + 4) - start_b,
    )
    if order != 0:
        return order
    return compare_versions(block, a, op_a, b, op_b)


@inlined
def compare_versions(block: int, a: int, op_a: int, b: int, op_b: int) -> int:
    """Two cells of one column: newest timestamp first, then the highest txn, then the op."""
    stamps = load_i64(block + 8 * TIMESTAMPS)
    stamp_a, stamp_b = load_i64(stamps + 8 * a), load_i64(stamps + 8 * b)
    if stamp_a != stamp_b:
        return -1 if stamp_a > stamp_b else 1
    txns = load_i64(block + 8 * TXNS)
    if txns != 0:
        txn_a, txn_b = load_i64(txns + 8 * a), load_i64(txns + 8 * b)
        if txn_a != txn_b:
            return -1 if txn_a > txn_b else 1
    if op_a == op_b:
        return 0
    return -1 if op_a < op_b else 1
