"""Cells become wide rows: the same values, null where there is no cell, in the types declared."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.client.wide import WideShape, count_rows, named_columns
from stele.errors import InvalidArgument, InvalidCells
from stele.model.cells import Cell, cells_to_batch
from stele.model.columns import Column, ColumnSelection, FamilySelection
from stele.model.schema import Schema

SCHEMA = Schema(columns={"f:n": "int16", "g:s": "string"}, key="string")

ROWS = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "f:n": st.integers(-5, 5),
            "g:s": st.text(max_size=3),
            "f:raw": st.binary(max_size=3),
        },
    ).filter(bool),
    max_size=6,
)


def cells_of(rows: dict[str, dict[str, object]]) -> pa.RecordBatch:
    cells = []
    for key, values in rows.items():
        for name, value in values.items():
            typed = SCHEMA.typed_column(name)
            column = Column.parse(name)
            data = value if typed is None else typed.encode(value)
            assert isinstance(data, bytes)
            cells.append(Cell(key.encode(), column.family, column.qualifier, 1, data))
    return cells_to_batch(sorted(cells, key=Cell.key))


@settings(max_examples=60)
@given(ROWS)
def test_wide_rows_say_what_the_cells_say(rows: dict[str, dict[str, object]]) -> None:
    shape = WideShape.of(SCHEMA, ColumnSelection.parse(["f:raw", "f:n", "g:"]))
    cells = cells_of(rows)
    wide = shape.convert(cells)
    assert wide.schema == shape.arrow_schema
    names = ("f:n", "g:s", "f:raw")
    assert wide.to_pylist() == [
        {"row": key} | {name: rows[key].get(name) for name in names} for key in sorted(rows)
    ]
    assert count_rows(cells) == len(rows)


def test_the_columns_are_those_known_before() -> None:
    everything = WideShape.of(SCHEMA, ColumnSelection.parse(None))
    assert everything.columns == (Column("f", b"n"), Column("g", b"s"))
    assert [field.type for field in everything.arrow_schema] == [
        pa.string(),
        pa.int16(),
        pa.string(),
    ]
    empty = WideShape.of(SCHEMA, ColumnSelection.parse([Column("f", b"")]))
    assert empty.columns == (Column("f", b""),)
    assert empty.selection.contains("f", b"")
    assert not empty.selection.contains("f", b"n")


@pytest.mark.parametrize("columns", [["h:"], [FamilySelection.prefix("f", b"x")], []])
def test_columns_that_nobody_knows_are_refused(columns: list[object]) -> None:
    with pytest.raises(InvalidArgument, match="declare"):
        WideShape.of(SCHEMA, ColumnSelection.parse(columns))  # type: ignore[arg-type]


def test_composite_keys_have_a_column_for_each_part() -> None:
    schema = Schema(columns={"f:n": "int8"}, key=[("tenant", "string"), ("n", "int8")])
    shape = WideShape.of(schema, ColumnSelection.parse(None))
    row = schema.key.encode(("a", 3))
    wide = shape.convert(cells_to_batch([Cell(row, "f", b"n", 1, b"\x05")]))
    assert wide.to_pylist() == [{"tenant": "a", "n": 3, "f:n": 5}]


@pytest.mark.parametrize(
    ("cell", "word"),
    [
        (Cell(b"a", "f", b"n", 1, b"\x00"), "f:n"),
        (Cell(b"\xff", "f", b"n", 1, b"\x00\x00"), "encoded key"),
    ],
)
def test_what_cannot_be_decoded_is_named(cell: Cell, word: str) -> None:
    shape = WideShape.of(SCHEMA, ColumnSelection.parse(None))
    with pytest.raises(InvalidCells, match=word):
        shape.convert(cells_to_batch([cell]))


def test_a_column_that_is_named_beside_its_family_is_there() -> None:
    names = named_columns(["f:", "f:x", b"g:y"])
    assert [str(column) for column in names] == ["f:x", "g:y"]
    assert named_columns(None) == named_columns("f:") == ()
    assert [str(column) for column in named_columns("f:x")] == ["f:x"]
    schema = Schema(columns={"f:n": "int64"})
    shape = WideShape.of(schema, ColumnSelection.parse(["f:", "f:x"]), names)
    assert [str(column) for column in shape.columns] == ["f:n", "f:x", "g:y"]
