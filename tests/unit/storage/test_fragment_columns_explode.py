"""Native columns into cells, from arrays in all the forms that Arrow gives them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stele.model.cells import Cell
from stele.model.columns import Column
from stele.model.types import value_type
from stele.storage.fragment_columns_explode import NativeRows, NativeValues
from stele.storage.fragment_columns_format import parquet_schema
from tests.unit.storage.columns_cases import SOME_COLUMNS, TYPES, native
from tests.unit.storage.fragment_cases import cells_of


def exploded(rows: list[bytes], column: Column, values: pa.Array, **stamps: pa.Array) -> list[Cell]:
    count = len(rows)
    times, txns = (pa.repeat(pa.scalar(number), count) for number in (5, 6))
    keys = [pa.array(rows, pa.binary()), times, txns]
    found = NativeRows(keys, [NativeValues(column, values, **stamps)])
    block = found.block(("f",))
    assert found.block_bytes() >= block.nbytes
    block.batch.validate(full=True)
    return cells_of([block])


@pytest.mark.parametrize("name", TYPES)
def test_values_get_their_canonical_bytes(name: str) -> None:
    kind = value_type(name)
    width = getattr(kind.codec, "width", 3)
    raw = [(number % 2).to_bytes(width, "big") for number in range(20)]
    values, bad = kind.decode_array(pa.array(raw, pa.binary()))
    assert not bad.any()
    rows = [b"row%02d" % at for at in range(20)]
    cells = exploded(rows, Column("f", b"q"), values)
    assert [cell.value for cell in cells] == raw
    assert cells[3] == Cell(b"row03", "f", b"q", 5, raw[3], txn=6)


@pytest.mark.parametrize("name", ["int64", "bool", "string"])
def test_slices_and_nulls(name: str) -> None:
    kind = value_type(name)
    raw = [
        None if at % 3 == 0 else (at % 2).to_bytes(getattr(kind.codec, "width", 2), "big")
        for at in range(40)
    ]
    values, _ = kind.decode_array(pa.array(raw, pa.binary()))
    for start in (0, 1, 7, 8, 9):
        own = values.slice(start, 20)
        cells = exploded([b"r%02d" % at for at in range(20)], Column("f", b"q"), own)
        expected = raw[start : start + 20]
        assert [(c.row, c.value) for c in cells] == [
            (b"r%02d" % at, value) for at, value in enumerate(expected) if value is not None
        ]


def test_own_stamps_come_before_those_of_the_row() -> None:
    times, txns = pa.array([None, 50, None]), pa.array([60, None, None])
    cells = exploded(
        [b"a", b"b", b"c"], Column("f", b"q"), pa.array([b"x"] * 3), times=times, txns=txns
    )
    assert [(cell.timestamp, cell.txn) for cell in cells] == [(5, 60), (50, 6), (5, 6)]


def test_rows_without_a_value_give_no_cell() -> None:
    assert exploded([b"a", b"b"], Column("f", b""), pa.nulls(2, pa.int64())) == []
    assert exploded([], Column("f", b""), pa.array([], pa.int64())) == []


def test_cells_of_a_row_are_in_order() -> None:
    columns = native(SOME_COLUMNS, own_stamps=True)
    arrays = [pa.array([b"r"]), pa.array([1]), pa.array([2])]
    for column in columns:
        arrays += [pa.nulls(1, column.value_type.arrow), pa.array([9]), pa.nulls(1, pa.int64())]
    arrays[3], arrays[6] = pa.array([7]), pa.array(["name"])
    batch = pa.RecordBatch.from_arrays(arrays, schema=parquet_schema(columns))
    cells = cells_of([NativeRows.of_batch(batch, columns).block(("info", "more"))])
    assert [(cell.qualifier, cell.timestamp, cell.txn) for cell in cells] == [
        (b"age", 9, 2),
        (b"name", 9, 2),
    ]
