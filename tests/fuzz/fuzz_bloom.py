"""Bloom filters of Parquet files: the header is parsed, the bitset is probed by a kernel."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from stele.kernels.bloom import BLOCK_BYTES, BloomFilter

KEYS = [b"", b"a", b"key%d", b"\xff" * 40]


def _seed(count: int) -> bytes:
    sink = io.BytesIO()
    rows = pa.table({"row": pa.array([b"row%d" % number for number in range(count)], pa.binary())})
    options = {"row": {"ndv": count, "fpp": 0.01}}
    with pq.ParquetWriter(sink, rows.schema, bloom_filter_options=options) as writer:
        writer.write_table(rows)
    column = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0).column(0)
    start = column.bloom_filter_offset
    return sink.getvalue()[start : start + column.bloom_filter_length]


SEEDS = [_seed(1), _seed(100)]


def TestOneInput(data: bytes) -> None:
    """Whatever is accepted lies within the input and can be asked about any key."""
    bloom = BloomFilter.parse(data)
    assert 0 < bloom.blocks * BLOCK_BYTES <= len(data)
    found = bloom.may_contain_many(KEYS)
    assert [bloom.may_contain(key) for key in KEYS] == found.tolist()
