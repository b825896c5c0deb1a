"""Requests: numbered as the model does it, measured, and their rows kept apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.requests import (
    QUICK_CELLS_MAX,
    Extent,
    extent_of,
    numbered,
    only_rows,
    request_block,
)
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Cell, Op, batch_to_cells, cells_to_batch
from stele.model.mutations import stamp

MUTATION = st.builds(
    Cell,
    st.sampled_from([b"", b"a", b"ab", b"b", b"abcdefgh1", b"abcdefgh2"]),
    st.sampled_from(["f", "g"]),
    st.sampled_from([b"", b"p", b"q"]),
    st.sampled_from([1, 5, 9, TIMESTAMP_MAX]),
    st.sampled_from([b"", b"value"]),
    st.sampled_from([Op.PUT, Op.PUT, Op.PUT, Op.PUT, Op.ERASE_COLUMN]),
)


def mutations(cells: list[Cell]) -> pa.RecordBatch:
    return cells_to_batch(cells).select(MUTATIONS.names)


@settings(max_examples=200)
@given(st.lists(MUTATION, min_size=1, max_size=6), st.integers(2, 20))
def test_numbers_are_those_of_the_model(cells: list[Cell], txn: int) -> None:
    cells = sorted({cell.key(): cell for cell in cells}.values(), key=Cell.key)
    batch = mutations(cells)
    expected = batch_to_cells(stamp(batch, txn))
    assert batch_to_cells(numbered(request_block(batch), txn).batch) == expected


def test_the_request_is_not_changed_and_lives_as_long_as_its_cells() -> None:
    batch = mutations([Cell(b"a", "f", b"", TIMESTAMP_MAX, b"v")])
    request = request_block(batch)
    first, second = numbered(request, 7), numbered(request, 8)
    del batch, request
    assert [cell.txn for cell in batch_to_cells(first.batch)] == [7]
    assert [cell.timestamp for cell in batch_to_cells(second.batch)] == [8]


@pytest.mark.parametrize("count", [1, 2, 100, QUICK_CELLS_MAX + 1])
def test_extents_and_rows_of_their_own(count: int) -> None:
    cells = [Cell(b"row%06d" % (n // 2), "f", b"%d" % n, 1, b"v" * (n % 7)) for n in range(count)]
    batch = mutations(cells)
    for part in (batch, batch.slice(count // 2), batch.slice(0, 1)):
        request = request_block(part)
        extent = extent_of(request)
        listed = part.column(0).to_pylist()
        size = sum(map(len, listed))
        assert extent == Extent(extent.rows_at, size, request.nbytes, listed[0], listed[-1])
        rows = only_rows(request, extent)
        del request
        assert [rows.row(index) for index in range(rows.count)] == listed


def test_rows_whose_offsets_are_changed_meanwhile_do_not_lead_out_of_their_copy() -> None:
    offsets = np.array([0, 1, 2, 3], np.int32)
    rows = pa.Array.from_buffers(
        pa.binary(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"abc" + bytes(100))]
    )
    given = cells_to_batch([Cell(bytes([97 + at]), "f", b"q", 1, b"v") for at in range(3)])
    request = request_block(given.select(MUTATIONS.names).set_column(0, MUTATIONS.field(0), rows))
    extent = extent_of(request)
    offsets[1:] = [-5, 1 << 30, 1 << 30]
    copied = only_rows(request, extent)
    assert [copied.row(at) for at in range(3)][1:] == [b"abc", b""]
