"""Rows of a load as cells: puts and erasures, with txn 0."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stele.errors import InvalidCells
from stele.model.cells import Op, batch_to_cells
from stele.model.schema import Schema
from stele.spark.load_cells import group_cells

SCHEMA = Schema(columns={"info:age": "int64"})
ROWS = pa.RecordBatch.from_arrays(
    [
        pa.array([b"a", b"a", b"b"]),
        pa.array(["delete", "delete", "put"]),
        pa.array([1, 1, 2], pa.int64()),
    ],
    names=["row", "_op", "info:age"],
)


def test_a_row_is_erased_once_and_in_groups_without_columns_too() -> None:
    for batch, puts in ((ROWS, 1), (ROWS.drop_columns(["info:age"]), 0)):
        cells = batch_to_cells(group_cells(batch, SCHEMA, "skip", 5))
        assert [cell.row for cell in cells if cell.op is Op.ERASE_ROW] == [b"a"]
        assert sum(cell.op is Op.PUT for cell in cells) == puts
        assert {cell.txn for cell in cells} == {0}


def test_an_op_that_is_none_is_named() -> None:
    wrong = ROWS.set_column(1, "_op", pa.array(["put", "drop", "put"]))
    with pytest.raises(InvalidCells, match="row b'a' is 'drop'"):
        group_cells(wrong, SCHEMA, "skip", 5)


def test_nulls_erase_if_they_are_to() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"a"]), pa.array([None], pa.int64())], names=["row", "info:age"]
    )
    assert group_cells(batch, SCHEMA, "skip", 5).num_rows == 0
    (erased,) = batch_to_cells(group_cells(batch, SCHEMA, "delete", 5))
    assert erased.op is Op.ERASE_COLUMN
