"""Data for the Spark benchmarks: cells of sixteen-byte rows, and typed wide rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import stele

COLUMNS_PER_ROW = 4
PART_CELLS = 1_000_000
VALUE_BYTES = 64


def row_key(number: int) -> bytes:
    return b"row-%012d" % number


def cell_parts(cells: int) -> Iterator[pa.Table]:
    """All cells in order, a part at a time, as wide rows of bytes."""
    rows = cells // COLUMNS_PER_ROW
    step = PART_CELLS // COLUMNS_PER_ROW
    for first in range(0, rows, step):
        yield _rows(np.arange(first, min(first + step, rows)), seed=first)


def delta(cells: int, share: int, number: int) -> Iterator[pa.Table]:
    """Some of the rows again, others for each number, with other values."""
    rows = cells // COLUMNS_PER_ROW
    chosen = np.flatnonzero(np.random.default_rng(number).integers(0, share, rows) == 0)
    step = PART_CELLS // COLUMNS_PER_ROW
    for first in range(0, len(chosen), step):
        yield _rows(chosen[first : first + step], seed=number + 1_000_003 * first)


def _rows(numbers: np.ndarray, seed: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    keys = pa.array([row_key(int(number)) for number in numbers], pa.binary())
    offsets = pa.py_buffer((np.arange(len(numbers) + 1) * VALUE_BYTES).astype(np.int32))
    columns: dict[str, pa.Array] = {"row": keys}
    for column in range(COLUMNS_PER_ROW):
        # Half of the bytes are of a few letters, as text is: something for zstd to do.
        data = dice.integers(97, 105, (len(numbers), VALUE_BYTES), np.uint8)
        data[:, ::2] = dice.integers(0, 256, (len(numbers), VALUE_BYTES // 2), np.uint8)
        buffers = [None, offsets, pa.py_buffer(data.tobytes())]
        values = pa.Array.from_buffers(pa.binary(), len(numbers), buffers)
        columns[f"info:q{column}"] = values
    return pa.table(columns)


WIDE_TYPES = {
    "m:count": "int64",
    "m:price": "float64",
    "m:seen": "timestamp[us]",
    "m:flag": "bool",
    "m:name": "string",
    "m:note": "string",
    "m:level": "int64",
    "m:ratio": "float64",
}


def wide_schema() -> stele.Schema:
    return stele.Schema([stele.Group("all", ["m"])], columns=WIDE_TYPES)


def wide_parts(cells: int) -> Iterator[pa.Table]:
    """Rows of eight typed columns, a part at a time."""
    rows = cells // len(WIDE_TYPES)
    step = PART_CELLS // len(WIDE_TYPES)
    for first in range(0, rows, step):
        numbers = np.arange(first, min(first + step, rows))
        dice = np.random.default_rng(first)
        count = len(numbers)
        yield pa.table(
            {
                "row": pa.array([row_key(int(n)) for n in numbers], pa.binary()),
                "m:count": pa.array(dice.integers(0, 1 << 40, count)),
                "m:price": pa.array(dice.random(count)),
                "m:seen": pa.array(dice.integers(0, 1 << 50, count)).cast(pa.timestamp("us")),
                "m:flag": pa.array(dice.integers(0, 2, count) == 1),
                "m:name": pa.array([f"name {n % 1000}" for n in numbers]),
                "m:note": pa.array([f"a longer note about row {n}" for n in numbers]),
                "m:level": pa.array(dice.integers(0, 100, count)),
                "m:ratio": pa.array(dice.random(count)),
            }
        )
