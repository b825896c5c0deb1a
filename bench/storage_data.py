"""The data of the storage benchmark: rows of 16 bytes, 4 qualifiers, 100-byte values.

Values are 50 random bytes twice, so that compression has something to do but not everything.
The same cells go to both stores, so nothing here depends on either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

QUALIFIERS = (b"age", b"city", b"mail", b"name")
FAMILY = "info"
VALUE_BYTES = 100


@dataclass(frozen=True, slots=True)
class Batch:
    """Cells of one write, as parallel lists in cell order."""

    rows: list[bytes]
    qualifiers: list[bytes]
    values: list[bytes]

    @property
    def cells(self) -> int:
        return len(self.rows)


def row_key(number: int) -> bytes:
    return b"user%012d" % number


def row_numbers(rows: int, seed: int = 1) -> npt.NDArray[np.int64]:
    """Distinct random row numbers, unsorted."""
    generator = np.random.default_rng(seed)
    spread = generator.choice(rows * 8, size=rows, replace=False)
    return spread.astype(np.int64) * 7919


def batches(
    numbers: npt.NDArray[np.int64], cells_per_batch: int = 1_000, seed: int = 2
) -> Iterator[Batch]:
    """Batches of whole rows; each batch is sorted within itself."""
    generator = np.random.default_rng(seed)
    rows_per_batch = max(cells_per_batch // len(QUALIFIERS), 1)
    for start in range(0, len(numbers), rows_per_batch):
        chosen = np.sort(numbers[start : start + rows_per_batch])
        halves = generator.bytes(len(chosen) * len(QUALIFIERS) * VALUE_BYTES // 2)
        half = VALUE_BYTES // 2
        values = [halves[i : i + half] * 2 for i in range(0, len(halves), half)]
        rows = [row_key(int(number)) for number in chosen for _ in QUALIFIERS]
        yield Batch(rows, list(QUALIFIERS) * len(chosen), values)
