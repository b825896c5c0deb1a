"""Tables of cells and wide tables as requests, against building them cell by cell."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model.arrow_input import from_cells_table, from_wide_table
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Cell, Op, batch_to_cells, cells_to_batch
from stele.model.schema import Schema
from stele.model.schema_changes import rename_column
from stele.model.types import value_type
from stele.model.validation import validate_mutations
from tests.unit.model.strategies import chunked, distinct_mutations, nasty_bytes, nasty_text, rows


def loose_table(cells: list[Cell]) -> pa.Table:
    """The same cells in the types that users' tables have."""
    return pa.table(
        {
            "value": pa.array([cell.value for cell in cells], pa.large_binary()),
            "row": pa.array([cell.row for cell in cells]).dictionary_encode()
            if cells
            else pa.array([], pa.binary()),
            "family": pa.array([cell.family for cell in cells], pa.large_string()),
            "qualifier": pa.array([cell.qualifier for cell in cells], pa.binary()),
            "timestamp": pa.array(
                [None if cell.timestamp == TIMESTAMP_MAX else cell.timestamp for cell in cells],
                pa.int64(),
            ),
            "op": pa.array([int(cell.op) for cell in cells], pa.int32()),
        }
    )


@given(distinct_mutations)
def test_cells_of_any_shape(cells: list[Cell]) -> None:
    ordered = sorted(cells, key=Cell.key)
    strict = cells_to_batch(cells)
    for table in (strict, pa.Table.from_batches([strict, strict.slice(0, 0)]), loose_table(cells)):
        batch = from_cells_table(table)
        assert batch.schema.equals(MUTATIONS)
        assert batch_to_cells(batch) == ordered
        validate_mutations(batch, Schema())


def test_defaults_of_cells() -> None:
    table = pa.table(
        {"row": ["b", "a"], "family": ["f", "f"], "qualifier": ["", "é"], "value": ["", "v"]}
    )
    assert batch_to_cells(from_cells_table(table)) == [
        Cell(b"a", "f", "é".encode(), TIMESTAMP_MAX, b"v"),
        Cell(b"b", "f", b"", TIMESTAMP_MAX, b""),
    ]


def test_timestamps_in_other_units() -> None:
    moments = pa.array([86_400, None], pa.timestamp("s"))
    table = pa.table(
        {"row": ["a", "b"], "family": ["f"] * 2, "qualifier": ["q"] * 2, "value": ["v"] * 2}
    ).append_column("timestamp", moments)
    cells = batch_to_cells(from_cells_table(table))
    assert [cell.timestamp for cell in cells] == [86_400_000_000, TIMESTAMP_MAX]


CELL = {"row": ["a"], "family": ["f"], "qualifier": ["q"], "value": ["v"]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"row": None}, "has the columns row"),
        ({"extra": [1]}, "extra"),
        ({"row": [1]}, "'row'"),
        ({"row": pa.array([None], pa.binary())}, "column 'row' has 1 nulls"),
        (
            {"family": pa.array([None], pa.utf8())},
            "column 'family' has 1 nulls, the first in row 'a'",
        ),
        ({"family": pa.nulls(1)}, "column 'family' has 1 nulls"),
        ({"family": [b"f"]}, "column 'family' is text, not binary"),
        ({"family": ["_retry"]}, "reserved"),
        ({"family": ["a b"]}, "outside"),
        ({"op": [5]}, "op is a number from 0 to 4, not 5 as in row 'a'"),
        ({"op": [-1]}, "not -1 as in row 'a'"),
        ({"op": pa.array([2**64 - 1], pa.uint64())}, f"not {2**64 - 1} as in row 'a'"),
        ({"op": ["put"]}, "column 'op' is whole numbers, not string"),
        ({"op": pa.array([None], pa.int8())}, "column 'op' has 1 nulls, the first in row 'a'"),
        ({"timestamp": ["now"]}, "timestamps are"),
        ({"timestamp": pa.array([2**64 - 1], pa.uint64())}, "64 bits"),
        ({"timestamp": pa.array([2**62], pa.timestamp("s"))}, "64 bits"),
    ],
)
def test_bad_tables_of_cells(change: dict[str, object], reason: str) -> None:
    columns = {name: column for name, column in {**CELL, **change}.items() if column is not None}
    with pytest.raises(InvalidArgument, match=reason):
        from_cells_table(pa.table(columns))


def test_duplicates_are_refused_by_name() -> None:
    twice = pa.concat_tables([pa.table(CELL), pa.table(CELL)])
    with pytest.raises(InvalidCells, match="row b'a', column 'f:q' is there twice"):
        from_cells_table(twice)


def test_too_many_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stele.model.arrow_input.BATCH_CELLS_MAX", 1)
    with pytest.raises(LimitExceeded, match="2 cells are over the limit of 1"):
        from_cells_table(pa.concat_tables([pa.table(CELL), pa.table(CELL)]))
    with pytest.raises(LimitExceeded, match="2 cells"):
        from_wide_table(Schema(), pa.table({"row": ["a"], "f:a": ["x"], "f:b": ["y"]}))
    monkeypatch.setattr("stele.model.arrow_input.FAMILIES_MAX", 0)
    with pytest.raises(LimitExceeded, match="1 families are over the limit of 0"):
        from_cells_table(pa.table(CELL))
    monkeypatch.setattr("stele.model.arrow_input.BATCH_BYTES_MAX", 4)
    assert from_wide_table(Schema(), pa.table({"row": ["ab"], "f:a": ["xy"]})).num_rows == 1
    with pytest.raises(LimitExceeded, match="5 bytes"):
        from_wide_table(Schema(), pa.table({"row": ["ab"], "f:a": ["xyz"]}))


TYPED = Schema(columns={"info:age": "int64", "a:name": "string"})
AGE, NAME = value_type("int64"), value_type("string")

wide_rows = st.lists(
    st.tuples(
        rows,
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), nasty_text),
        st.one_of(st.none(), nasty_bytes),
    ),
    max_size=10,
    unique_by=lambda row: row[0],
)


@given(wide_rows, st.sampled_from(["skip", "delete"]), st.data())
@settings(max_examples=60)
def test_wide_rows(
    wide: list[tuple[bytes, int | None, str | None, bytes | None]],
    nulls: str,
    data: st.DataObject,
) -> None:
    kinds = (pa.binary(), pa.int64(), pa.utf8(), pa.binary())
    columns = [
        data.draw(chunked([row[index] for row in wide], kind)) for index, kind in enumerate(kinds)
    ]
    table = pa.table(columns, names=["row", "info:age", "a:name", "a:raw"])
    expected = []
    for key, age, name, raw in wide:
        for family, qualifier, value in (
            ("info", b"age", None if age is None else AGE.encode(age)),
            ("a", b"name", None if name is None else NAME.encode(name)),
            ("a", b"raw", raw),
        ):
            if value is not None:
                expected.append(Cell(key, family, qualifier, TIMESTAMP_MAX, value))
            elif nulls == "delete":
                erase = Cell(key, family, qualifier, TIMESTAMP_MAX, op=Op.ERASE_COLUMN)
                expected.append(erase)
    batch = from_wide_table(TYPED, table, nulls=nulls)  # type: ignore[arg-type]
    assert batch_to_cells(batch) == sorted(expected, key=Cell.key)
    validate_mutations(batch, TYPED)


def test_composite_keys_and_timestamps() -> None:
    schema = Schema(key=[("tenant", "string"), ("day", "date")])
    days = [datetime.date(2020, 1, day) for day in (2, 1)]
    table = pa.table(
        {"day": days, "tenant": ["t", "t"], "f:x": ["new", "old"], "_timestamp": [9, None]}
    )
    cells = batch_to_cells(from_wide_table(schema, table))
    assert [schema.key.decode(cell.row) for cell in cells] == [("t", day) for day in days[::-1]]
    assert [(cell.value, cell.timestamp) for cell in cells] == [
        (b"old", TIMESTAMP_MAX),
        (b"new", 9),
    ]
    encoded = pa.table({"id": [cell.row for cell in cells], "f:x": [cell.value for cell in cells]})
    again = batch_to_cells(from_wide_table(schema, encoded, row="id"))
    assert [cell.row for cell in again] == [cell.row for cell in cells]


def test_labels_name_columns() -> None:
    schema = rename_column(TYPED, "info:age", "years")
    cells = batch_to_cells(from_wide_table(schema, pa.table({"row": ["a"], "years": [7]})))
    assert cells == [Cell(b"a", "info", b"age", TIMESTAMP_MAX, AGE.encode(7))]
    both = pa.table({"row": ["a"], "years": [7], "info:age": [8]})
    with pytest.raises(InvalidCells, match="two columns of the table are column 'info:age'"):
        from_wide_table(schema, both)


def test_near_types_are_cast_and_others_refused() -> None:
    table = pa.table({"row": ["a"], "info:age": pa.array([7], pa.int8())})
    assert batch_to_cells(from_wide_table(TYPED, table))[0].value == AGE.encode(7)
    for wrong in (["7"], [7.0], [b"7"]):
        with pytest.raises(InvalidCells, match="info:age"):
            from_wide_table(TYPED, pa.table({"row": ["a"], "info:age": wrong}))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"f:x": ["v"]}, "no key column 'row'"),
        ({"row": ["a"], "x": ["v"]}, "no colon"),
        ({"row": ["a"], "f:x": [1]}, "int64 is not declared"),
        ({"row": pa.array([None], pa.binary()), "f:x": ["v"]}, "nulls"),
        ({"row": pa.array([None], pa.utf8()), "f:x": ["v"]}, "nulls in 1 lines, and every row"),
        ({"row": [b""], "f:x": ["v"]}, "at least one byte"),
        ({"row": [""], "f:x": ["v"]}, "at least one byte"),
        ({"row": [1], "f:x": ["v"]}, "'row'"),
    ],
)
def test_bad_wide_tables(columns: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        from_wide_table(Schema(key="string"), pa.table(columns))


def test_bad_wide_arguments() -> None:
    table = pa.table({"row": ["a"], "f:x": ["v"]})
    with pytest.raises(InvalidArgument, match="'skip' or 'delete'"):
        from_wide_table(Schema(), table, nulls="zero")  # type: ignore[arg-type]
    twice = pa.Table.from_arrays([table["row"], table["f:x"], table["f:x"]], ["row", "f:x", "f:x"])
    with pytest.raises(InvalidCells, match="same name"):
        from_wide_table(Schema(), twice)
    with pytest.raises(InvalidCells, match="row b'a', column 'f:x' is there twice"):
        from_wide_table(Schema(), pa.concat_tables([table, table]))
    raw = pa.table({"row": [b"not a date!"], "f:x": ["v"]})
    with pytest.raises(InvalidArgument, match="not an encoded key"):
        from_wide_table(Schema(key="date"), raw)
    assert from_wide_table(Schema(), pa.table({"row": ["a"]})).num_rows == 0
    assert from_wide_table(Schema(), table.slice(0, 0)).num_rows == 0


@pytest.mark.parametrize("kind", ["int64", "string", "binary"])
def test_a_key_that_is_null_is_named_by_its_column(kind: str) -> None:
    schema = Schema(key=kind)
    table = pa.table({"id": pa.array([None], schema.key.parts[0].arrow), "f:x": ["v"]})
    with pytest.raises(
        InvalidCells, match="'id' has 1 nulls in 1 lines, and every row needs a key"
    ):
        from_wide_table(schema, table, row="id")
