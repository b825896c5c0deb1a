"""Probing the bloom filters that Parquet writers put beside a column.

A filter is a bitset of blocks of 256 bits, eight words of 32 bits each. A value is hashed by XXH64
with seed 0. The upper half of the hash chooses the block, the lower half times eight odd constants
chooses one bit in each word. A value may be present only if all eight bits are set.

In the file a filter is a header in thrift's compact encoding, followed by the bitset:

    header   field 1  i32     bytes of the bitset
             field 2  struct  algorithm, with field 1 for "split block"
             field 3  struct  hash, with field 1 for "XXH64"
             field 4  struct  compression, with field 1 for "none"
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.errors import Corruption, UnsupportedFormat
from stele.kernels.jit import bulk, callee, inlined, quick
from stele.kernels.memory import Word, address_of, load_i32, load_u8, load_u32, load_u64
from stele.kernels.search import BinaryKeys

BLOCK_BYTES = 32

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)

SALTS = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)


@inlined
def _rotate(value: Word, bits: int) -> Word:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _round(lane: Word, word: Word) -> Word:
    return _rotate(lane + word * _PRIME_2, 31) * _PRIME_1


@inlined
def _merge_lane(value: Word, lane: Word) -> Word:
    return (value ^ _round(np.uint64(0), lane)) * _PRIME_1 + _PRIME_4


@callee
def _hash_lanes(address: int, stop: int) -> Word:
    """Whole stripes of 32 bytes."""
    one, two = _PRIME_1 + _PRIME_2, _PRIME_2
    three, four = np.uint64(0), np.uint64(0) - _PRIME_1
    while address < stop:
        one = _round(one, load_u64(address))
        two = _round(two, load_u64(address + 8))
        three = _round(three, load_u64(address + 16))
        four = _round(four, load_u64(address + 24))
        address += 32
    value = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
    value = _merge_lane(_merge_lane(value, one), two)
    return _merge_lane(_merge_lane(value, three), four)


@callee
def hash_bytes(address: int, length: int) -> Word:
    """XXH64 with seed 0."""
    end, stripes = address + length, address + (length & ~31)
    value = _hash_lanes(address, stripes) if length >= 32 else _PRIME_5
    value += np.uint64(length)
    at = stripes
    while at + 8 <= end:
        value = _rotate(value ^ _round(np.uint64(0), load_u64(at)), 27) * _PRIME_1 + _PRIME_4
        at += 8
    if at + 4 <= end:
        word = np.uint64(load_u32(at))
        value = _rotate(value ^ (word * _PRIME_1), 23) * _PRIME_2 + _PRIME_3
        at += 4
    while at < end:
        value = _rotate(value ^ (np.uint64(load_u8(at)) * _PRIME_5), 11) * _PRIME_1
        at += 1
    value = (value ^ (value >> np.uint64(33))) * _PRIME_2
    value = (value ^ (value >> np.uint64(29))) * _PRIME_3
    return value ^ (value >> np.uint64(32))


@callee
def may_contain_hash(bitset: int, blocks: int, value: Word) -> bool:
    """Whether all eight bits of a hash are set."""
    high, low = value >> np.uint64(32), value & np.uint64(0xFFFFFFFF)
    block = bitset + BLOCK_BYTES * np.int64((high * np.uint64(blocks)) >> np.uint64(32))
    for word in range(8):
        product = (low * np.uint64(SALTS[word])) & np.uint64(0xFFFFFFFF)
        bit = np.int64(product >> np.uint64(27))
        if (load_u32(block + 4 * word) >> bit) & 1 == 0:
            return False
    return True


@quick
def _may_contain(bitset: int, blocks: int, key: bytes) -> bool:
    return may_contain_hash(bitset, blocks, hash_bytes(address_of(key), len(key)))


@bulk
def _may_contain_many(
    bitset: int, blocks: int, offsets: int, data: int, found: npt.NDArray[np.bool_]
) -> None:
    for number in range(len(found)):
        begin = load_i32(offsets + 4 * number)
        length = load_i32(offsets + 4 * number + 4) - begin
        found[number] = may_contain_hash(bitset, blocks, hash_bytes(data + begin, length))


_STOP = 0
_I32 = 5
_STRUCT = 12
_VARINT_BYTES_MAX = 5


class _Header:
    """Thrift's compact encoding, as much of it as the header of a filter uses."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise Corruption("the header of a bloom filter is cut off", offset=self.at)
        self.at += 1
        return self.data[self.at - 1]

    def field(self, before: int) -> tuple[int, int]:
        """Number and type of the next field; a stop is number 0 of type 0."""
        head = self.byte()
        if head == _STOP:
            return 0, _STOP
        if head >> 4 == 0:
            raise UnsupportedFormat("the header of a bloom filter uses long field numbers")
        return before + (head >> 4), head & 15

    def i32(self) -> int:
        number = 0
        for position in range(_VARINT_BYTES_MAX):
            byte = self.byte()
            number |= (byte & 127) << 7 * position
            if byte < 128:
                return (number >> 1) ^ -(number & 1)
        raise Corruption("a number in the header of a bloom filter is too long", offset=self.at)

    def choice(self) -> int:
        """Which member of a union of empty structs is set."""
        number, kind = self.field(0)
        if kind != _STRUCT or self.byte() != _STOP or self.byte() != _STOP:
            raise UnsupportedFormat("the header of a bloom filter has an unknown form")
        return number


def _parse_header(data: bytes) -> tuple[int, int]:
    """The size of the bitset and where it begins."""
    header, size, number = _Header(data), None, 0
    while True:
        number, kind = header.field(number)
        if kind == _STOP:
            break
        if number == 1 and kind == _I32:
            size = header.i32()
        elif number in (2, 3, 4) and kind == _STRUCT:
            if header.choice() != 1:
                raise UnsupportedFormat(f"bloom filter with an unknown choice for field {number}")
        else:
            raise UnsupportedFormat(f"bloom filter with an unknown field {number} in its header")
    if size is None:
        raise Corruption("the header of a bloom filter gives no size")
    return size, header.at


class BloomFilter:
    """A filter in memory. Answers "certainly not" or "perhaps"."""

    __slots__ = ("address", "blocks", "owner")

    def __init__(self, bitset: bytes | pa.Buffer):
        self.owner = pa.py_buffer(bitset)
        assert self.owner.size > 0
        assert self.owner.size % BLOCK_BYTES == 0
        self.address: int = self.owner.address
        self.blocks: int = self.owner.size // BLOCK_BYTES

    @staticmethod
    def parse(data: bytes) -> BloomFilter:
        """The filter whose header and bitset are the bytes of a file from its offset on."""
        size, start = _parse_header(data)
        if size <= 0 or size % BLOCK_BYTES:
            raise Corruption(f"bloom filter of {size} bytes is not a sequence of blocks")
        if len(data) < start + size:
            raise Corruption(f"bloom filter of {size} bytes ends after {len(data) - start}")
        return BloomFilter(pa.py_buffer(data).slice(start, size))

    def may_contain(self, key: bytes) -> bool:
        """False only if the key was never added."""
        return _may_contain(self.address, self.blocks, key)

    def may_contain_many(self, keys: Sequence[bytes] | pa.BinaryArray) -> npt.NDArray[np.bool_]:
        """:meth:`may_contain` for many keys."""
        some = BinaryKeys(keys)
        found = np.empty(some.count, np.bool_)
        _may_contain_many(self.address, self.blocks, some.offsets, some.data, found)
        return found
