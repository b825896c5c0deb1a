"""Parquet's bloom filter, asked by a kernel.

The filter is an array of blocks of 256 bits. The upper half of a row's 64-bit hash (XXH64, seed 0)
chooses a block; the lower half, multiplied by eight odd constants, one bit in each of the block's
eight words. A row that was put in has all eight bits set.

In the file a header of about sixteen bytes stands in front. The bits are a power of two of at least
32 bytes and the header is shorter than that, so the size of both together says where it ends.
"""

from __future__ import annotations

import numpy as np

from stele.kernels.jit import callee, quick
from stele.kernels.memory import address_of, load_u8, load_u32, load_u64

BLOCK_BYTES = 32

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_SALTS = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
_LOW_32 = np.uint64(0xFFFFFFFF)


@callee
def _rotate(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@callee
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * _P2, 31) * _P1


@callee
def _merge(state: np.uint64, lane: np.uint64) -> np.uint64:
    return (state ^ _round(np.uint64(0), lane)) * _P1 + _P4


@callee
def _hash_stripes(address: int, length: int) -> np.uint64:
    """The part of the hash over whole stripes of 32 bytes."""
    one = _P1 + _P2
    two = _P2
    three = np.uint64(0)
    four = np.uint64(0) - _P1
    for at in range(address, address + length - 31, 32):
        one = _round(one, np.uint64(load_u64(at)))
        two = _round(two, np.uint64(load_u64(at + 8)))
        three = _round(three, np.uint64(load_u64(at + 16)))
        four = _round(four, np.uint64(load_u64(at + 24)))
    state = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
    return _merge(_merge(_merge(_merge(state, one), two), three), four)


@callee
def xxh64(address: int, length: int) -> np.uint64:
    """XXH64 with seed 0."""
    at = address
    end = address + length
    state = _P5
    if length >= 32:
        state = _hash_stripes(address, length)
        at += length - length % 32
    state += np.uint64(length)
    while at + 8 <= end:
        state = _rotate(state ^ _round(np.uint64(0), np.uint64(load_u64(at))), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        state = _rotate(state ^ (np.uint64(load_u32(at)) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        state = _rotate(state ^ (np.uint64(load_u8(at)) * _P5), 11) * _P1
        at += 1
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    return state ^ (state >> np.uint64(32))


def bits_start(size: int) -> int:
    """Where the bits begin in a filter of ``size`` bytes with its header; -1 if it is none."""
    if size < BLOCK_BYTES:
        return -1
    start = size - (1 << (size.bit_length() - 1))
    return start if 0 < start < BLOCK_BYTES else -1


@quick
def may_contain(bloom: bytes, start: int, row: bytes) -> bool:
    """Whether a row may be in the filter whose bits begin at ``start``. Never a false no."""
    state = xxh64(address_of(row), len(row))
    blocks = np.uint64((len(bloom) - start) // BLOCK_BYTES)
    block = ((state >> np.uint64(32)) * blocks) >> np.uint64(32)
    words = address_of(bloom) + start + BLOCK_BYTES * np.int64(block)
    low = state & _LOW_32
    for word in range(8):
        salted = (low * np.uint64(_SALTS[word])) & _LOW_32
        bit = np.int64(1) << np.int64(salted >> np.uint64(27))
        if not load_u32(words + 4 * word) & bit:
            return False
    return True
