"""Rows: mappings from columns to newest values, over slices of batches."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells
from stele.model.cells import Cell, cells_to_batch
from stele.model.columns import Column
from stele.model.row import Row, rows_of
from stele.model.schema import Schema
from stele.model.types import value_type
from tests.unit.model.strategies import families, nasty_bytes, rows

INT = value_type("int64")
SCHEMA = Schema(columns={"info:age": "int64"}, key="date")
DAY = datetime.date(2024, 2, 29)
KEY = SCHEMA.key.encode(DAY)

CELLS = [
    Cell(KEY, "info", b"age", 9, INT.encode(37), txn=9),
    Cell(KEY, "info", b"age", 5, INT.encode(36), txn=5),
    Cell(KEY, "info", b"name", 5, b"Ada", txn=5),
    Cell(KEY, "raw", b"\xff", 5, b"\x00", txn=5),
]
ROW = Row(KEY, cells_to_batch(CELLS), SCHEMA)


def test_newest_values_typed_where_declared() -> None:
    assert ROW.key == KEY
    assert ROW.typed_key == DAY
    assert ROW["info:age"] == 37
    assert ROW["info:name"] == ROW[b"info:name"] == ROW[Column("info", b"name")] == b"Ada"
    assert ROW[b"raw:\xff"] == b"\x00"
    assert ROW.raw("info:age") == INT.encode(37)
    assert ROW.versions("info:age") == [(9, 37), (5, 36)]
    assert ROW.versions(b"raw:\xff") == [(5, b"\x00")]
    assert ROW.versions("info:none") == []


def test_it_is_a_mapping() -> None:
    assert list(ROW) == ["info:age", "info:name", b"raw:\xff"]
    assert len(ROW) == 3
    assert ROW.to_dict() == {"info:age": 37, "info:name": b"Ada", b"raw:\xff": b"\x00"}
    assert dict(ROW.items()) == ROW.to_dict()
    assert "info:age" in ROW
    assert "info:none" not in ROW
    assert ROW.get("info:none") is None
    assert ROW.get("info:none", 3) == 3
    with pytest.raises(KeyError, match="info:none"):
        ROW["info:none"]
    with pytest.raises(InvalidArgument, match="no colon"):
        ROW["age"]
    assert repr(ROW) == f"Row({KEY!r}, ['info:age', 'info:name', b'raw:\\xff'])"


def test_what_is_no_name_is_not_in_it() -> None:
    anything: list[object] = [7, None, ("info", b"age")]
    assert not any(ROW.__contains__(name) for name in anything)


def test_cells_are_as_they_came() -> None:
    assert ROW.cells == tuple(CELLS)
    assert ROW.to_arrow().equals(cells_to_batch(CELLS))
    assert Row(KEY, cells_to_batch(CELLS)) == ROW
    assert Row(KEY, cells_to_batch(CELLS[:1])) != ROW
    assert Row(b"other", cells_to_batch(CELLS)) != ROW
    assert ROW != {"info:age": 37}


def test_without_a_schema_values_are_bytes() -> None:
    plain = Row(KEY, cells_to_batch(CELLS))
    assert plain["info:age"] == INT.encode(37)
    assert plain.typed_key == KEY


def test_an_undecodable_value_names_its_column_and_is_there_raw() -> None:
    row = Row(KEY, cells_to_batch([Cell(KEY, "info", b"age", 1, b"old")]), SCHEMA)
    with pytest.raises(InvalidCells, match="info:age is of type int64"):
        row["info:age"]
    assert row.raw("info:age") == b"old"
    assert row.cells[0].value == b"old"
    assert list(row) == ["info:age"]


puts = st.lists(
    st.builds(
        Cell, rows, families, nasty_bytes, st.integers(-3, 3), nasty_bytes, txn=st.integers(1, 3)
    ),
    max_size=20,
    unique_by=lambda cell: cell.key()[:5],
)


@given(puts, st.integers(0, 3))
def test_rows_of_a_batch(cells: list[Cell], start: int) -> None:
    cells = sorted(cells, key=Cell.key)
    found = list(rows_of(cells_to_batch(cells).slice(start)))
    assert [cell for row in found for cell in row.cells] == cells[start:]
    assert [row.key for row in found] == sorted({cell.row for cell in cells[start:]})
    for row in found:
        newest: dict[Column, Cell] = {}
        for cell in row.cells:
            assert cell.row == row.key
            newest.setdefault(Column(cell.family, cell.qualifier), cell)
        assert row.to_dict() == {column.name: cell.value for column, cell in newest.items()}
        for column in newest:
            versions = [
                (cell.timestamp, cell.value)
                for cell in row.cells
                if (cell.family, cell.qualifier) == (column.family, column.qualifier)
            ]
            assert row.versions(column) == versions
