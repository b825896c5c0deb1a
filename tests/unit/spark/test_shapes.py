"""Cells become lines: typed columns, maps of families, three ways to call them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.model.cells import Cell, cells_to_batch
from stele.model.columns import ColumnSelection
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.spark.shapes import CELL_FIELDS, MAP_TYPE, Names, RowsShape, converter

SCHEMA = Schema(
    [Group("hot", ["info", "stats"]), Group("rest")],
    columns={"info:age": "uint8", "info:name": "string"},
)


def int_cell(row: bytes, value: int) -> Cell:
    return Cell(row, "info", b"age", 1, value.to_bytes(1, "big"), txn=1)


CELLS = [
    Cell(b"a", "anchor", b"x", 1, b"1", txn=1),
    Cell(b"a", "anchor", b"y", 1, b"2", txn=1),
    int_cell(b"a", 36),
    Cell(b"b", "info", b"name", 1, b"Bob", txn=1),
    Cell(b"c", "stats", b"n", 1, b"9", txn=1),
]


def lines(
    columns: list[str] | None, names: Names = "qualified", undeclared: str | None = None
) -> list[dict[str, object]]:
    shape = RowsShape.of(SCHEMA, ColumnSelection.parse(columns), names, undeclared)
    found = [cell for cell in CELLS if shape.selection.contains(cell.family, cell.qualifier)]
    batch = shape.convert(cells_to_batch(found))
    assert batch.schema == shape.arrow_schema
    found_lines: list[dict[str, object]] = batch.to_pylist()
    return found_lines


def test_cells_are_given_as_they_are() -> None:
    shape = converter(SCHEMA, ColumnSelection.parse(None), "cells", "qualified")
    batch = shape.convert(cells_to_batch(CELLS))
    assert batch.schema == CELL_FIELDS
    assert batch.column("family").to_pylist() == ["anchor", "anchor", "info", "info", "stats"]
    assert batch.column("value").to_pylist() == [b"1", b"2", b"\x24", b"Bob", b"9"]


def test_all_columns_are_the_declared_ones_and_the_families_without_any() -> None:
    assert lines(None) == [
        {"row": b"a", "info:age": 36, "info:name": None, "stats": []},
        {"row": b"b", "info:age": None, "info:name": "Bob", "stats": []},
        {"row": b"c", "info:age": None, "info:name": None, "stats": [(b"n", b"9")]},
    ]


def test_columns_and_families_by_name() -> None:
    assert lines(["info:name", "anchor:"]) == [
        {"row": b"a", "info:name": None, "anchor": [(b"x", b"1"), (b"y", b"2")]},
        {"row": b"b", "info:name": "Bob", "anchor": []},
    ]
    assert lines(["anchor:y"]) == [{"row": b"a", "anchor:y": b"2"}]


def test_what_has_no_column_is_in_the_one_for_the_undeclared() -> None:
    extra = Cell(b"d", "info", b"city", 1, b"Ulm", txn=1)
    shape = RowsShape.of(SCHEMA, ColumnSelection.parse(None), "qualified", "others")
    found = shape.convert(cells_to_batch([*CELLS, extra])).to_pylist()
    assert {line["row"]: line["others"] for line in found} == {
        b"a": [(b"anchor:x", b"1"), (b"anchor:y", b"2")],
        b"b": [],
        b"c": [],
        b"d": [(b"info:city", b"Ulm")],
    }
    assert [line["stats"] for line in found] == [[], [], [(b"n", b"9")], []]
    assert lines(["info:age", "anchor:x"], "nested", "others") == [
        {"row": b"a", "others": [], "info": {"age": 36}, "anchor": {"x": b"1"}}
    ]
    assert lines(["anchor:"], undeclared="others")[0]["others"] == []
    bare = RowsShape.of(Schema([Group("all")]), ColumnSelection.parse(None), "flat", "all")
    assert bare.convert(cells_to_batch(CELLS[:1])).to_pylist() == [
        {"row": b"a", "all": [(b"anchor:x", b"1")]}
    ]
    with pytest.raises(InvalidArgument, match=r"two columns .* named 'stats'"):
        lines(None, undeclared="stats")


def test_flat_and_nested_names() -> None:
    assert lines(["info:", "anchor:"], "flat")[0] == {
        "row": b"a",
        "age": 36,
        "name": None,
        "anchor": [(b"x", b"1"), (b"y", b"2")],
    }
    assert lines(["info:", "anchor:x"], "nested") == [
        {"row": b"a", "info": {"age": 36, "name": None}, "anchor": {"x": b"1"}},
        {"row": b"b", "info": {"age": None, "name": "Bob"}, "anchor": {"x": None}},
    ]


def test_unsigned_numbers_are_widened() -> None:
    shape = RowsShape.of(SCHEMA, ColumnSelection.parse(["info:age"]), "qualified")
    assert shape.arrow_schema.field("info:age").type == pa.int16()
    with_map = RowsShape.of(SCHEMA, ColumnSelection.parse(["anchor:"]), "qualified")
    assert with_map.arrow_schema.field("anchor").type == MAP_TYPE


@pytest.mark.parametrize(
    ("columns", "names", "said"),
    [
        (["info:age", "anchor:age"], "flat", "named 'age'"),
        (["anchor:row"], "flat", "named 'row'"),
        (["row:x"], "nested", "named 'row'"),
        ([], "qualified", "known before reading"),
    ],
)
def test_two_columns_of_one_name_are_refused(columns: list[str], names: Names, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        RowsShape.of(SCHEMA, ColumnSelection.parse(columns), names)


def test_a_composite_key_is_several_columns() -> None:
    schema = Schema(columns={"a:x": "int64"}, key=[("tenant", "string"), ("day", "date")])
    shape = RowsShape.of(schema, ColumnSelection.parse(None), "qualified")
    assert shape.arrow_schema.names == ["tenant", "day", "a:x"]


ROWS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c"]), st.sampled_from(["f", "g"]), st.binary(max_size=2)
    ),
    max_size=20,
    unique=True,
)


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_maps_hold_every_cell_of_their_family(found: list[tuple[bytes, str, bytes]]) -> None:
    cells = sorted((Cell(row, f, q, 1, row + q, txn=1) for row, f, q in found), key=Cell.key)
    shape = RowsShape.of(Schema(), ColumnSelection.parse(["f:", "g:"]), "qualified")
    seen = [
        (line["row"], family, qualifier, value)
        for line in shape.convert(cells_to_batch(cells)).to_pylist()
        for family in ("f", "g")
        for qualifier, value in line[family]
    ]
    assert sorted(seen) == sorted((c.row, c.family, c.qualifier, c.value) for c in cells)
