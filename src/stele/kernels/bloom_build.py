"""Building the bloom filter of a row group, as ``bloom`` describes it.

Rows are sorted, so each is hashed once however many cells it has. The size is that of Parquet's
formula for one false positive in a hundred, rounded up to a power of two.
"""

from __future__ import annotations

import math

import numpy as np

from stele.kernels.block import COUNT, DESCRIPTOR_WIDTH, Matrix
from stele.kernels.bloom import BLOCK_BYTES, SALTS, hash_bytes
from stele.kernels.compare import row_address, row_length, same_row
from stele.kernels.jit import bulk, callee
from stele.kernels.memory import Word, address_of, load_u32, store_i32

FALSE_POSITIVES = 0.01

_BITS_PER_ROW = -8 / math.log(1 - FALSE_POSITIVES ** (1 / 8))
_BITSET_BYTES_MAX = 128 * 1024 * 1024
_HEADER_END = bytes.fromhex("1c1c00001c1c00001c1c000000")
"""Split blocks, XXH64, not compressed: each a union whose first member is an empty struct."""


@callee
def _insert(bitset: int, blocks: int, value: Word) -> None:
    """Set the eight bits of a hash."""
    high, low = value >> np.uint64(32), value & np.uint64(0xFFFFFFFF)
    block = bitset + BLOCK_BYTES * np.int64((high * np.uint64(blocks)) >> np.uint64(32))
    for word in range(8):
        product = (low * np.uint64(SALTS[word])) & np.uint64(0xFFFFFFFF)
        bit = np.int64(1) << np.int64(product >> np.uint64(27))
        store_i32(block + 4 * word, load_u32(block + 4 * word) | bit)


@bulk
def _count_rows(parts: Matrix) -> int:
    """The rows of all parts; one that goes on in the next part may count twice."""
    rows = 0
    for number in range(len(parts)):
        block = address_of(parts) + 8 * DESCRIPTOR_WIDTH * number
        for cell in range(parts[number, COUNT]):
            rows += cell == 0 or not same_row(block, cell - 1, cell)
    return rows


@bulk
def _insert_rows(parts: Matrix, bitset: int, blocks: int) -> None:
    for number in range(len(parts)):
        block = address_of(parts) + 8 * DESCRIPTOR_WIDTH * number
        for cell in range(parts[number, COUNT]):
            if cell == 0 or not same_row(block, cell - 1, cell):
                value = hash_bytes(row_address(block, cell), row_length(block, cell))
                _insert(bitset, blocks, value)


def bitset_bytes(rows: int) -> int:
    """How large the filter of so many rows is."""
    wanted = math.ceil(rows * _BITS_PER_ROW / 8)
    return min(max(1 << (wanted - 1).bit_length(), BLOCK_BYTES), _BITSET_BYTES_MAX)


def build_bloom(parts: Matrix) -> bytes:
    """The filter over the rows of the blocks that ``parts`` describe, with its header."""
    size = bitset_bytes(_count_rows(parts))
    bitset = np.zeros(size, np.uint8)
    _insert_rows(parts, bitset.ctypes.data, size // BLOCK_BYTES)
    return _header(size) + bitset.tobytes()


def _header(size: int) -> bytes:
    """Field 1, the size as a zigzag varint, and what never differs."""
    number, encoded = 2 * size, bytearray(b"\x15")
    while number > 127:
        encoded.append((number & 127) | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded) + _HEADER_END
