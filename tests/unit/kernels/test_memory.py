"""Loads, stores and copies at raw addresses."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from stele.kernels.block import Ints
from stele.kernels.jit import quick
from stele.kernels.memory import (
    address_of,
    copy_bytes,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u16_big_endian,
    load_u32,
    load_u32_big_endian,
    load_u64,
    load_u64_big_endian,
    move_bytes,
    prefetch,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
)
from tests.oracles.guarded import GuardedPage


@quick
def signed(at: int) -> tuple[int, int, int, int]:
    return load_i8(at), load_i16(at), load_i32(at), load_i64(at)


@quick
def unsigned(at: int) -> tuple[int, int, int]:
    return load_u8(at), load_u32(at), load_u64(at)


@quick
def big_endian(at: int) -> tuple[int, int, int]:
    return load_u16_big_endian(at), load_u32_big_endian(at), load_u64_big_endian(at)


@quick
def store(at: int, value: int) -> None:
    store_i64(at, value)
    store_i32(at + 8, value)
    store_i16(at + 12, value)
    store_i8(at + 14, value)


PATTERNS = [bytes(8), b"\xff" * 8, bytes(range(8)), b"\x80" + bytes(6) + b"\x7f", b"\xfe" * 8]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("shift", range(3))
def test_loads_of_every_width_wherever_they_lie(pattern: bytes, shift: int) -> None:
    page = GuardedPage()
    at = page.put_last(pattern + b"x" * shift)
    formats = ("b", "h", "i", "q")
    assert signed(at) == tuple(struct.unpack_from(f"<{kind}", pattern)[0] for kind in formats)
    wide = tuple(struct.unpack_from(f"<{kind}", pattern)[0] for kind in "BIQ")
    assert tuple(map(int, unsigned(at))) == wide
    big = tuple(struct.unpack_from(f">{kind}", pattern)[0] for kind in "HIQ")
    assert tuple(map(int, big_endian(at))) == big


@pytest.mark.parametrize("value", [0, 1, -1, (1 << 63) - 1, -(1 << 63), 0x1234_5678_9ABC_DEF0])
def test_stores_keep_the_low_bits(value: int) -> None:
    page = GuardedPage()
    at = page.put_last(bytes(15))
    store(at, value)
    low = (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")
    assert page.read(at, 15) == low + low[:4] + low[:2] + low[:1]


@quick
def copies(target: int, source: int, length: int) -> None:
    copy_bytes(target, source, length)


@quick
def moves(target: int, source: int, length: int) -> None:
    move_bytes(target, source, length)


def test_copies_and_overlapping_moves() -> None:
    page = GuardedPage()
    at = page.put_last(b"0123456789")
    copies(at, at + 5, 5)
    assert page.read(at, 10) == b"5678956789"
    at = page.put_last(b"0123456789")
    moves(at + 2, at, 8)
    assert page.read(at, 10) == b"0101234567"
    copies(at, at + 5, 0)
    assert page.read(at, 10) == b"0101234567"


@quick
def array_address(array: Ints) -> int:
    return address_of(array)


@quick
def first_byte(data: bytes) -> int:
    prefetch(address_of(data))
    prefetch(0)
    return load_u8(address_of(data))


def test_addresses_of_arrays_and_bytes() -> None:
    array = np.arange(10)
    assert array_address(array) == array.ctypes.data
    assert array_address(array[3:]) == array.ctypes.data + 24
    assert first_byte(b"A") == 65
