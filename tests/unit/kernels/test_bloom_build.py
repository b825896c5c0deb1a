"""Bloom filters of our own: every row is found, few others are, and pyarrow sizes them alike."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import Block, matrix
from stele.kernels.bloom import SALTS, BloomFilter
from stele.kernels.bloom_build import bitset_bytes, build_bloom
from stele.model.cells import Cell, cells_to_batch


def built(parts: Sequence[Sequence[bytes]]) -> bytes:
    blocks = [
        Block.from_batch(cells_to_batch([Cell(row, "f", b"q", 1) for row in part]))
        for part in parts
    ]
    return build_bloom(matrix(blocks))


def plain_bitset(rows: Sequence[bytes], size: int) -> bytes:
    """What the specification says, word by word."""
    words = [0] * (size // 4)
    for row in rows:
        value = xxhash.xxh64_intdigest(row, seed=0)
        block = (value >> 32) * (size // 32) >> 32
        for at, salt in enumerate(SALTS):
            words[8 * block + at] |= 1 << ((value * salt & 0xFFFFFFFF) >> 27)
    return b"".join(word.to_bytes(4, "little") for word in words)


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=60),
        min_size=1,
        max_size=3,
    )
)
def test_the_bits_are_those_of_the_specification(parts: list[list[bytes]]) -> None:
    rows = [row for part in parts for row in part]
    data = built(parts)
    size = BloomFilter.parse(data).blocks * 32
    assert data[-size:] == plain_bitset(rows, size)
    assert BloomFilter.parse(data).may_contain_many(rows).all()


def test_few_other_rows_are_taken_for_present() -> None:
    rows = [b"user%012d" % (number * 7_919) for number in range(5_000)]
    others = [b"user%012d" % (number * 7_919 + 1) for number in range(20_000)]
    found = BloomFilter.parse(built([rows])).may_contain_many(others)
    assert found.mean() < 0.01


def test_a_row_counts_once_however_many_cells_it_has() -> None:
    assert len(built([[b"a"] * 5_000])) == len(built([[b"a"]]))


@pytest.mark.parametrize(
    ("rows", "size"), [(1, 32), (26, 32), (27, 64), (1_024, 2_048), (1 << 30, 128 << 20)]
)
def test_sizes(rows: int, size: int) -> None:
    assert bitset_bytes(rows) == size
