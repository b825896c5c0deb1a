"""Bloom filters as pyarrow writes them, and the hash they stand on."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, UnsupportedFormat
from stele.kernels.bloom import BloomFilter, hash_bytes
from stele.kernels.jit import quick
from stele.kernels.memory import address_of


@quick
def hash_key(key: bytes) -> int:
    return hash_bytes(address_of(key), len(key))  # type: ignore[no-any-return]


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_the_hash_is_xxh64(key: bytes) -> None:
    assert int(hash_key(key)) == xxhash.xxh64_intdigest(key, seed=0)


@pytest.mark.parametrize("length", [*range(70), 1_000, 65_535])
def test_the_hash_at_every_length(length: int) -> None:
    key = bytes(number * 37 & 255 for number in range(length))
    assert int(hash_key(key)) == xxhash.xxh64_intdigest(key, seed=0)


def written_filter(keys: list[bytes], fpp: float = 0.01) -> bytes:
    """The bytes of a file from the filter of its only column on."""
    sink = io.BytesIO()
    table = pa.table({"row": pa.array(keys, pa.binary())})
    options = {"row": {"ndv": len(keys), "fpp": fpp}}
    with pq.ParquetWriter(sink, table.schema, bloom_filter_options=options) as writer:
        writer.write_table(table)
    column = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0).column(0)
    start = column.bloom_filter_offset
    return sink.getvalue()[start : start + column.bloom_filter_length]


KEYS = [b"user%012d" % (number * 7_919) for number in range(5_000)]
OTHERS = [b"user%012d" % (number * 7_919 + 1) for number in range(20_000)]


def test_what_was_written_is_always_found() -> None:
    bloom = BloomFilter.parse(written_filter(KEYS))
    assert bloom.may_contain_many(KEYS).all()
    assert all(bloom.may_contain(key) for key in KEYS[:100])


def test_few_others_are_found() -> None:
    bloom = BloomFilter.parse(written_filter(KEYS))
    found = bloom.may_contain_many(OTHERS)
    assert found.mean() < 0.02
    assert [bloom.may_contain(key) for key in OTHERS[:300]] == found[:300].tolist()


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=50, unique=True))
def test_any_keys_are_found(keys: list[bytes]) -> None:
    sliced = pa.array([b"before", *keys, b"after"], pa.binary()).slice(1, len(keys))
    assert BloomFilter.parse(written_filter(keys)).may_contain_many(sliced).all()


def test_no_keys_are_no_answer() -> None:
    assert BloomFilter.parse(written_filter(KEYS)).may_contain_many([]).tolist() == []


GOOD = written_filter(KEYS[:10])


@pytest.mark.parametrize("length", range(len(GOOD)))
def test_a_cut_off_filter_is_corrupt(length: int) -> None:
    with pytest.raises(Corruption):
        BloomFilter.parse(GOOD[:length])


@pytest.mark.parametrize(
    ("damaged", "error"),
    [
        (b"\x15\x02" + GOOD[2:], Corruption),  # one byte is not a block
        (b"\x15\x00" + GOOD[2:], Corruption),
        (b"\x15" + b"\xff" * 6, Corruption),
        (b"\x25" + GOOD[1:], UnsupportedFormat),
        (b"\x05" + GOOD[1:], UnsupportedFormat),
        (GOOD.replace(b"\x1c\x1c", b"\x1c\x2c", 1), UnsupportedFormat),
        (b"\x00" + GOOD, Corruption),
    ],
)
def test_a_foreign_filter_is_refused(damaged: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match="bloom"):
        BloomFilter.parse(damaged)


def test_every_flipped_bit_of_the_header_is_refused_or_harmless() -> None:
    header_bytes = len(GOOD) - 32
    for position in range(8 * header_bytes):
        flipped = bytearray(GOOD)
        flipped[position // 8] ^= 1 << position % 8
        try:
            bloom = BloomFilter.parse(bytes(flipped))
        except (Corruption, UnsupportedFormat):
            continue
        assert bloom.blocks * 32 <= len(GOOD)
