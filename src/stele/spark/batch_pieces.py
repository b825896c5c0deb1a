"""Arrow batches in pieces of bounded size.

How many lines a batch of Spark's has is a setting, and says nothing about its bytes or its cells.
Whatever copies, encodes or checks a batch works on a piece at a time, so that wide lines and large
values cost more time but not more memory, and no array comes near Arrow's 32-bit offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

PIECE_BYTES_MAX = 8 << 20
"""As much as a hundred thousand ordinary cells."""


def pieces(
    batch: pa.RecordBatch, rows_max: int, bytes_max: int = PIECE_BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """The same lines, at most so many in a piece, of at most so many bytes or one line."""
    for start in range(0, batch.num_rows, rows_max):
        yield from _halved(batch.slice(start, rows_max), bytes_max)


def _halved(batch: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or batch.nbytes <= bytes_max:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _halved(batch.slice(0, middle), bytes_max)
    yield from _halved(batch.slice(middle), bytes_max)
