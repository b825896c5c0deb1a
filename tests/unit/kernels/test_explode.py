"""The kernel that turns columns into cells: sizes, widths and bitmaps at raw addresses."""

from __future__ import annotations

import numpy as np
import pytest

from stele.kernels import explode as kernel
from stele.kernels.block import Block
from stele.kernels.explode import COLUMN_WIDTH, explode, measure_explosion
from stele.kernels.runs import TOTALS_WORDS
from stele.kernels.selection import allocate_block
from stele.model.cells import batch_to_cells

ROWS = [b"a", b"bb" * 10, b"c"]


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("first_bit", [0, 3, 7])
def test_numbers_are_turned_round(width: int, first_bit: int) -> None:
    values = np.arange(3 * width, dtype=np.uint8)
    bitmap = np.packbits([0] * first_bit + [1, 0, 1], bitorder="little")
    qualifier = np.frombuffer(b"qualifier", np.uint8)
    columns = np.zeros((1, COLUMN_WIDTH), np.int64)
    columns[0, kernel.VALID], columns[0, kernel.VALID_BIT] = bitmap.ctypes.data, first_bit
    columns[0, kernel.DATA], columns[0, kernel.WIDTH] = values.ctypes.data, width
    columns[0, kernel.QUALIFIER] = qualifier.ctypes.data
    columns[0, kernel.QUALIFIER_LENGTH] = len(qualifier)
    offsets = np.cumsum([0, *map(len, ROWS)]).astype(np.int32)
    keys = np.frombuffer(b"".join(ROWS), np.uint8)
    times, txns = np.array([1, 2, 3], np.int64), np.array([4, 5, 6], np.int64)
    totals = np.zeros(TOTALS_WORDS, np.int64)
    measure_explosion(columns, offsets.ctypes.data, 3, totals)
    assert totals.tolist() == [0, 2, 2, 18, 2 * width]
    descriptor, owner = allocate_block(totals)
    explode(
        columns,
        offsets.ctypes.data,
        keys.ctypes.data,
        times.ctypes.data,
        txns.ctypes.data,
        3,
        descriptor,
    )
    cells = batch_to_cells(Block(descriptor, ("f",), owner).batch)
    assert [(cell.row, cell.timestamp, cell.txn) for cell in cells] == [(b"a", 1, 4), (b"c", 3, 6)]
    whole = values.tobytes()
    assert [cell.value for cell in cells] == [whole[:width][::-1], whole[2 * width :][::-1]]
    assert {cell.qualifier for cell in cells} == {b"qualifier"}
