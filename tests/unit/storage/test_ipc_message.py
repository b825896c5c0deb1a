"""The message in front of buffers that are not copied: pyarrow reads it as its own."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import Block
from stele.kernels.requests import request_block
from stele.model.cells import CELLS, Cell, Op, cells_to_batch
from stele.model.mutations import MutationBatch
from stele.storage.ipc_message import LOGGED, record_batch_message

CELL = st.builds(
    Cell,
    st.binary(min_size=1, max_size=20),
    st.sampled_from(["a", "bc"]),
    st.binary(max_size=9),
    st.integers(0, 1 << 62),
    st.binary(max_size=40),
    st.just(Op.PUT),
    st.integers(0, 1 << 62),
)


def read(block: Block) -> pa.RecordBatch:
    data = b"".join(bytes(memoryview(buffer)) for buffer in record_batch_message(block))
    batch = pa.ipc.read_record_batch(pa.py_buffer(data), LOGGED)
    batch.validate(full=True)
    return batch


def logged(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [batch.column(name) for name in LOGGED.names]
    columns[1] = columns[1].indices
    return pa.RecordBatch.from_arrays(columns, schema=LOGGED)


@settings(max_examples=60)
@given(st.lists(CELL, min_size=1, max_size=30), st.data())
def test_any_cells_are_read_back_by_pyarrow(cells: list[Cell], data: st.DataObject) -> None:
    batch = cells_to_batch(cells)
    start = data.draw(st.integers(0, len(cells) - 1))
    for part in (batch, batch.slice(start), batch.slice(0, start + 1)):
        assert read(Block.from_batch(part)).equals(logged(part))


def test_mutations_have_no_txns_to_leave_out() -> None:
    mutations = MutationBatch()
    mutations.put(b"a", "f", b"q", b"v")
    mutations.erase_row(b"b")
    batch = mutations.to_arrow()
    assert read(request_block(batch)).equals(logged(batch))


def test_no_cells() -> None:
    assert read(Block.from_batch(cells_to_batch([]))).num_rows == 0


def test_the_memory_of_a_block_lives_as_long_as_its_message() -> None:
    cells = [Cell(b"row%d" % n, "f", b"q", 9, bytes(50), txn=9) for n in range(9)]
    for start in (0, 2):
        expected = logged(cells_to_batch(cells).slice(start))
        message = record_batch_message(Block.from_batch(cells_to_batch(cells).slice(start)))
        gc.collect()
        data = b"".join(bytes(memoryview(buffer)) for buffer in message)
        assert pa.ipc.read_record_batch(pa.py_buffer(data), LOGGED).equals(expected)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_the_message_is_as_long_as_it_says(count: int) -> None:
    cells = [Cell(b"r%d" % n, "f", b"", 1, b"v" * n, txn=1) for n in range(count)]
    head, *body = record_batch_message(Block.from_batch(cells_to_batch(cells)))
    assert len(head) == 8 + 424
    data = b"".join(bytes(memoryview(buffer)) for buffer in (head, *body))
    assert pa.ipc.read_message(data).body.size == len(data) - len(head)
    assert len(data) % 8 == 0
    assert CELLS.names != LOGGED.names
