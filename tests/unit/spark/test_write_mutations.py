"""Lines as mutations: what each form says, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import stele
from stele.errors import InvalidArgument, InvalidCells
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Op, batch_to_cells
from stele.spark.erasures import LINES
from stele.spark.write_form import delete_form, write_form
from stele.spark.write_mutations import check_fit, mutation_lines, sorted_mutations

SCHEMA = stele.Schema(columns={"info:age": "int64"})
WIDE = {"id": "string", "info:age": "bigint", "a:x": "string"}


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def said(lines: pa.Table) -> list[tuple[bytes, str, bytes, Op]]:
    return [
        (cell.row, cell.family, cell.qualifier, cell.op)
        for cell in batch_to_cells(sorted_mutations(lines))
    ]


def wide(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"id": ["b", "a"], "info:age": [1, None], "a:x": ["x", None], **columns}
    )


def test_wide_rows_are_puts_and_nulls_are_what_they_are_said_to_be() -> None:
    lines = mutation_lines(SCHEMA, write_form(SCHEMA, WIDE, row="id"), wide())
    assert lines.schema == LINES
    assert said(lines) == [(b"b", "a", b"x", Op.PUT), (b"b", "info", b"age", Op.PUT)]
    erasing = write_form(SCHEMA, WIDE, row="id", nulls="delete")
    assert [one[3] for one in said(mutation_lines(SCHEMA, erasing, wide()))] == [
        Op.ERASE_COLUMN,
        Op.ERASE_COLUMN,
        Op.PUT,
        Op.PUT,
    ]


def test_an_op_erases_rows_up_to_their_time() -> None:
    form = write_form(
        SCHEMA, WIDE | {"t": "bigint", "op": "string"}, row="id", timestamp="t", op="op"
    )
    lines = mutation_lines(SCHEMA, form, wide(t=[5, 6], op=["put", "delete"]))
    cells = batch_to_cells(sorted_mutations(lines))
    assert [(cell.row, cell.op, cell.timestamp) for cell in cells] == [
        (b"a", Op.ERASE_ROW, 6),
        (b"b", Op.PUT, 5),
        (b"b", Op.PUT, 5),
    ]
    with pytest.raises(InvalidCells, match="op of row b'a' is 'drop': it is put, delete"):
        mutation_lines(SCHEMA, form, wide(t=[5, 6], op=["put", "drop"]))


def test_erasures_alone_need_no_columns() -> None:
    form = write_form(SCHEMA, {"id": "string", "op": "string"}, row="id", op="op")
    lines = mutation_lines(SCHEMA, form, batch(id=["a", "a"], op=["delete", "delete"]))
    assert said(lines) == [(b"a", "", b"", Op.ERASE_ROW)], "the same erasure twice is one"


def test_cells_take_ops_in_words_and_numbers() -> None:
    types = {"row": "string", "family": "string", "qualifier": "string", "value": "string"}
    form = write_form(SCHEMA, types | {"op": "string"})
    lines = batch(
        row=["a", "b", "c"],
        family=["f", "f", None],
        qualifier=["q", "q", None],
        value=["v", None, None],
        op=["put", "delete", "erase_row"],
    )
    assert said(mutation_lines(SCHEMA, form, lines)) == [
        (b"a", "f", b"q", Op.PUT),
        (b"b", "f", b"q", Op.ERASE_COLUMN),
        (b"c", "", b"", Op.ERASE_ROW),
    ]
    numbers = lines.set_column(4, "op", pa.array([4, 2, 0]))
    assert said(mutation_lines(SCHEMA, form, numbers)) == said(mutation_lines(SCHEMA, form, lines))
    with pytest.raises(InvalidCells, match="'value' has 1 nulls"):
        mutation_lines(SCHEMA, form, lines.set_column(4, "op", pa.array(["put"] * 3)).slice(0, 2))
    plain = write_form(SCHEMA, types | {"timestamp": "bigint"})
    put = batch(row=["a"], family=["f"], qualifier=["q"], value=["v"], timestamp=[7])
    assert batch_to_cells(sorted_mutations(mutation_lines(SCHEMA, plain, put)))[0].timestamp == 7


def test_deletes_name_parts_of_rows() -> None:
    form = delete_form(SCHEMA, {"row": "string"}, columns=["info:age", "a:"])
    lines = mutation_lines(SCHEMA, form, batch(row=["b", "a", "a"]))
    assert said(lines) == [
        (b"a", "a", b"", Op.ERASE_FAMILY),
        (b"a", "info", b"age", Op.ERASE_COLUMN),
        (b"b", "a", b"", Op.ERASE_FAMILY),
        (b"b", "info", b"age", Op.ERASE_COLUMN),
    ]
    assert set(lines.column("timestamp").to_pylist()) == {TIMESTAMP_MAX}


def test_typed_keys() -> None:
    schema = stele.Schema(key=[("tenant", "string"), ("day", "int64")])
    form = write_form(schema, {"tenant": "string", "day": "bigint", "f:v": "string"})
    given = pa.RecordBatch.from_pydict({"tenant": ["t"], "day": [-1], "f:v": ["x"]})
    (cell,) = batch_to_cells(sorted_mutations(mutation_lines(schema, form, given)))
    assert cell.row == schema.key.to_bytes(("t", -1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [b"a", None]}, "key column 'id' has 1 nulls"),
        ({"id": [b"a", b""]}, "at least one byte|empty"),
        ({"info:age": ["x", "y"]}, "info:age"),
    ],
)
def test_lines_that_are_wrong(columns: dict[str, Any], message: str) -> None:
    form = write_form(SCHEMA, WIDE, row="id")
    with pytest.raises((InvalidArgument, InvalidCells), match=message):
        mutation_lines(SCHEMA, form, wide(**columns))


def test_types_are_checked_without_lines() -> None:
    form = write_form(SCHEMA, WIDE, row="id")
    check_fit(SCHEMA, form, wide().schema)
    wrong = pa.schema([("id", pa.string()), ("info:age", pa.string()), ("a:x", pa.string())])
    with pytest.raises(InvalidArgument, match=r"does not fit the table.*info:age"):
        check_fit(SCHEMA, form, wrong)


def test_the_same_cell_twice_is_refused_with_a_remedy() -> None:
    form = write_form(SCHEMA, WIDE, row="id")
    parts = [mutation_lines(SCHEMA, form, wide()) for _ in range(2)]
    with pytest.raises(InvalidCells, match=r"there twice.*give each a timestamp"):
        sorted_mutations(pa.concat_tables(parts))
    assert sorted_mutations(LINES.empty_table()).schema == MUTATIONS


def test_maps_are_the_cells_of_a_family() -> None:
    types = {"id": "string", "links": "map<string,string>", "info:age": "bigint", "op": "string"}
    kind = pa.map_(pa.string(), pa.string())
    maps = pa.array([[("x", "1"), ("y", None)], None, [("z", "2")]], kind)
    given = batch(**{"id": ["b", "a", "c"], "links": maps, "info:age": [1, 2, 3]})
    form = write_form(SCHEMA, {k: v for k, v in types.items() if k != "op"}, row="id")
    assert said(mutation_lines(SCHEMA, form, given)) == [
        (b"a", "info", b"age", Op.PUT),
        (b"b", "info", b"age", Op.PUT),
        (b"b", "links", b"x", Op.PUT),
        (b"c", "info", b"age", Op.PUT),
        (b"c", "links", b"z", Op.PUT),
    ]
    with_ops = given.append_column("op", pa.array(["put", "put", "delete"]))
    lines = mutation_lines(SCHEMA, write_form(SCHEMA, types, row="id", op="op"), with_ops)
    assert said(lines)[-1] == (b"c", "", b"", Op.ERASE_ROW)


def test_decimals_are_unsigned_numbers_where_those_are_declared() -> None:
    schema = stele.Schema(columns={"info:n": "uint64"})
    form = write_form(schema, {"id": "string", "info:n": "decimal(20,0)"}, row="id")
    number = pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0))
    lines = mutation_lines(schema, form, batch(**{"id": ["a"], "info:n": number}))
    assert lines.column("value").to_pylist() == [b"\xff" * 8]
