"""Parquet's bloom filter as pyarrow writes it, and the hash against another implementation."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.jit import quick
from stele.kernels.memory import address_of
from stele.kernels.parquet_bloom import BLOCK_BYTES, bits_start, may_contain, xxh64


@quick
def hash_of(data: bytes) -> int:
    return xxh64(address_of(data), len(data))  # type: ignore[return-value]


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_the_hash(data: bytes) -> None:
    assert hash_of(data) == xxhash.xxh64_intdigest(data)


@pytest.mark.parametrize("size", [*range(70), 4_096, 65_535])
def test_the_hash_of_every_length(size: int) -> None:
    data = bytes(at * 7 % 256 for at in range(size))
    assert hash_of(data) == xxhash.xxh64_intdigest(data)


def filter_of(rows: list[bytes], ndv: int) -> bytes:
    """What pyarrow writes for a column."""
    sink = pa.BufferOutputStream()
    table = pa.table({"row": pa.array(rows, pa.binary())})
    pq.write_table(table, sink, bloom_filter_options={"row": {"ndv": ndv, "fpp": 0.01}})
    data = sink.getvalue()
    column = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0)
    start = column.bloom_filter_offset
    return bytes(data.slice(start, column.bloom_filter_length).to_pybytes())


@pytest.mark.parametrize("count", [1, 2, 10, 100, 1_000, 20_000])
@pytest.mark.parametrize("ndv", [1, 4_096, 65_536])
def test_no_row_is_denied_and_few_strangers_are_let_in(count: int, ndv: int) -> None:
    rows = [b"user%012d" % (at * 7_919) for at in range(count)]
    bloom = filter_of(rows, ndv)
    start = bits_start(len(bloom))
    assert start > 0
    assert all(may_contain(bloom, start, row) for row in rows)
    strangers = sum(may_contain(bloom, start, b"other%d" % at) for at in range(2_000))
    if count <= ndv:
        assert strangers < 80


@settings(max_examples=50)
@given(st.sets(st.binary(max_size=40), min_size=1, max_size=100))
def test_any_rows(rows: set[bytes]) -> None:
    bloom = filter_of(list(rows), 128)
    start = bits_start(len(bloom))
    assert all(may_contain(bloom, start, row) for row in rows)


@pytest.mark.parametrize(
    ("size", "start"),
    [(47, 15), (80, 16), (2_064, 16), (0, -1), (31, -1), (32, -1), (64, -1), (100, -1), (96, -1)],
)
def test_where_the_bits_begin(size: int, start: int) -> None:
    assert bits_start(size) == start
    assert BLOCK_BYTES == 32
