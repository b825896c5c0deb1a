"""Rows of a load as cells: puts and erasures, with txn 0."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stele.errors import InvalidCells
from stele.model.cells import Op, batch_to_cells
from stele.model.schema import Schema
from stele.spark.load_cells import advised, group_cells, with_unsigned

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


def test_maps_are_the_cells_of_a_family() -> None:
    pairs = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([b"a", b"b", b"c"]),
            pa.array([5, None, 7], pa.int64()),
            pa.array([1, None, 3], pa.int64()),
            pa.array([[(b"y", b"2"), (b"x", b"1")], None, [(b"z", None)]], pairs),
        ],
        names=["row", "_timestamp", "info:age", "_family/anchor"],
    )
    cells = batch_to_cells(group_cells(batch, SCHEMA, "skip", 9))
    found = [(cell.row, cell.family, cell.qualifier, cell.timestamp) for cell in cells]
    assert found == [
        (b"a", "anchor", b"x", 5),
        (b"a", "anchor", b"y", 5),
        (b"a", "info", b"age", 5),
        (b"c", "info", b"age", 7),
    ]


def test_decimals_are_unsigned_numbers_where_those_are_declared() -> None:
    schema = Schema(columns={"f:u": "uint64", "f:d": "decimal(20,0)"})
    decimals = pa.array([(1 << 64) - 1, None], pa.decimal128(20, 0))
    batch = pa.record_batch({"row": [b"a", b"b"], "f:u": decimals, "f:d": decimals})
    found = with_unsigned(batch, schema)
    assert found.column("f:u").to_pylist() == [(1 << 64) - 1, None]
    assert found.schema.types[1:] == [pa.uint64(), pa.decimal128(20, 0)]
    low = pa.record_batch({"row": [b"a"], "f:u": pa.array([-1], pa.decimal128(20, 0))})
    with pytest.raises(InvalidCells, match="'f:u' is not of type uint64"):
        with_unsigned(low, schema)


def test_a_cell_that_is_there_twice_comes_with_advice() -> None:
    twice = pa.record_batch({"row": [b"a", b"a"], "info:age": pa.array([1, 2], pa.int64())})
    with pytest.raises(InvalidCells, match=r"'info:age' is there twice: .*dropDuplicates"):
        group_cells(twice, SCHEMA, "skip", 5)
    with pytest.raises(InvalidCells, match=r"^something else$"), advised():
        raise InvalidCells("something else")
