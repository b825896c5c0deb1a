"""Exported batches: kernels find what pyarrow finds, and nothing is left behind."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

from stele.kernels import arrow_arrays
from stele.kernels.arrow_arrays import ARRAY_WORDS, Exported
from stele.kernels.jit import quick

Words = ctypes.c_int64 * ARRAY_WORDS


@quick
def _has_nulls(batch: int, column: int) -> bool:
    return arrow_arrays.has_nulls(arrow_arrays.child(batch, column))


@quick
def _entries(batch: int, column: int) -> int:
    return arrow_arrays.entries(arrow_arrays.child(batch, column), 8)


def with_bitmap(bits: bytes, count: int, offset: int = 0) -> pa.RecordBatch:
    """Numbers of which Arrow has not counted the nulls."""
    data = pa.py_buffer(np.arange(count + offset, dtype=np.int64))
    column = pa.Array.from_buffers(pa.int64(), count, [pa.py_buffer(bits), data], -1, offset)
    return pa.record_batch([column], names=["a"])


def has_nulls(batch: pa.RecordBatch) -> bool:
    with Exported(batch, Words()) as address:
        return _has_nulls(address, 0)


def test_a_slice_begins_at_its_offset() -> None:
    batch = pa.record_batch([pa.array(range(10), pa.int64())], names=["a"]).slice(3, 4)
    with Exported(batch, Words()) as address:
        assert _entries(address, 0) == batch.column(0).buffers()[1].address + 3 * 8


def test_a_batch_goes_when_its_export_has_ended() -> None:
    batch = with_bitmap(b"\xff", 8)
    memory, words = weakref.ref(batch), Words()
    before = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match="within"), Exported(batch, words):
        raise ValueError("within")
    assert words[8] == 0, "it is released"
    del batch
    gc.collect()
    assert memory() is None
    assert pa.total_allocated_bytes() <= before


def test_known_nulls_and_none() -> None:
    assert not has_nulls(pa.record_batch([pa.array([1, 2], pa.int64())], names=["a"]))
    assert has_nulls(pa.record_batch([pa.array([1, None], pa.int64())], names=["a"]))


@pytest.mark.parametrize("offset", [0, 1, 7, 8])
@pytest.mark.parametrize("count", [1, 8, 9, 20])
def test_nulls_that_nobody_has_counted(offset: int, count: int) -> None:
    assert not has_nulls(with_bitmap(b"\xff" * 4, count, offset))
    for index in range(28):
        bits = bytearray(b"\xff" * 4)
        bits[index // 8] ^= 1 << (index % 8)
        expected = offset <= index < offset + count
        assert has_nulls(with_bitmap(bytes(bits), count, offset)) == expected, index
