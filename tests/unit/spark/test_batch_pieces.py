"""Pieces of batches: all lines, in order, none larger than asked for unless one line is."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stele.spark.batch_pieces import pieces


@given(
    sizes=st.lists(st.integers(0, 3_000), max_size=40),
    rows_max=st.integers(1, 50),
    bytes_max=st.integers(1, 5_000),
)
def test_pieces_are_the_batch(sizes: list[int], rows_max: int, bytes_max: int) -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array([bytes(n) for n in sizes], pa.binary())})
    found = list(pieces(batch, rows_max, bytes_max))
    assert [value for piece in found for value in piece.column("value").to_pylist()] == [
        bytes(n) for n in sizes
    ]
    for piece in found:
        assert 1 <= piece.num_rows <= rows_max
        assert piece.num_rows == 1 or piece.nbytes <= bytes_max


def test_a_batch_that_fits_is_one_piece() -> None:
    batch = pa.RecordBatch.from_pydict({"n": list(range(1_000))})
    assert [piece.num_rows for piece in pieces(batch, 1_000)] == [1_000]
