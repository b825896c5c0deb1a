"""Lines of a load that are cells: puts and erasures, each in its group."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model.cells import TIMESTAMP_MAX, Op, batch_to_cells
from stele.model.columns import HIDDEN_FAMILIES
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.spark.load_lines import lines_as_cells

SCHEMA = Schema(columns={"info:age": "int64"})
TWO = Schema([Group("hot", ["info"]), Group("rest", ["x"])])


def lines(**changes: pa.Array) -> pa.RecordBatch:
    columns = {
        "row": pa.array([b"a", b"a"]),
        "_family": pa.array(["x", "info"]),
        "_qualifier": pa.array([b"q", b"age"]),
        "_value": pa.array([b"1", b"2"]),
        "_timestamp": pa.array([5, None], pa.int64()),
    } | changes
    return pa.record_batch(columns)


def test_lines_that_are_cells_go_to_their_groups() -> None:
    schema = TWO
    for group, name, time in zip(schema.groups, (b"age", b"q"), (9, 5), strict=True):
        (cell,) = batch_to_cells(lines_as_cells(lines(), schema, group, 9))
        assert (cell.qualifier, cell.timestamp, cell.txn) == (name, time, 0)
    with pytest.raises(InvalidCells, match="family 'y' of a cell"):
        lines_as_cells(lines(_family=pa.array(["y", "x"])), schema, schema.groups[0], 9)
    typed = Schema([Group("all", ["info", "x"])], key="int64")
    with pytest.raises(InvalidArgument):
        lines_as_cells(lines(), typed, typed.groups[0], 9)


@pytest.mark.parametrize(
    "changes",
    [
        {"row": pa.array([b"", b"b"])},
        {"row": pa.array([b"a" * 70_000, b"b"])},
        {"_qualifier": pa.array([b"q" * 70_000, b"q"])},
    ],
)
def test_cells_that_no_table_takes_are_refused(changes: dict[str, pa.Array]) -> None:
    given = lines(_family=pa.array(["info", "info"]), **changes)
    with pytest.raises((InvalidArgument, LimitExceeded)):
        lines_as_cells(given, SCHEMA, SCHEMA.groups[0], 7)


def erasures(ops: list[str] | pa.Array) -> pa.RecordBatch:
    """A line for each op, with what it needs and nothing else."""
    return pa.record_batch(
        {
            "row": pa.array([b"%d" % number for number in range(len(ops))]),
            "_family": pa.array([None, "x", "x", "x", "x", "x"][: len(ops)], pa.string()),
            "_qualifier": pa.array([None, None, b"q", b"q", b"q", b"q"][: len(ops)], pa.binary()),
            "_value": pa.array([None, None, None, None, b"v", None][: len(ops)], pa.binary()),
            "_timestamp": pa.array([None, 5, None, 7, 8, None][: len(ops)], pa.int64()),
            "_op": ops,
        }
    )


WORDS = ["erase_row", "erase_family", "erase_column", "erase_cell", "put", "delete"]
MEANT = [Op.ERASE_ROW, Op.ERASE_FAMILY, Op.ERASE_COLUMN, Op.ERASE_CELL, Op.PUT, Op.ERASE_COLUMN]


@pytest.mark.parametrize("ops", [WORDS, pa.array([int(op) for op in MEANT], pa.int8())])
def test_every_op_of_cells_is_what_it_says(ops: list[str] | pa.Array) -> None:
    hot, rest = (batch_to_cells(lines_as_cells(erasures(ops), TWO, g, 9)) for g in TWO.groups)
    assert [cell.op for cell in hot] == [Op.ERASE_ROW], "a row goes in every group"
    assert [cell.op for cell in rest] == MEANT
    assert [cell.timestamp for cell in rest] == [
        TIMESTAMP_MAX,
        5,
        TIMESTAMP_MAX,
        7,
        8,
        TIMESTAMP_MAX,
    ]


def test_an_op_that_is_none_and_a_family_of_ours_are_refused() -> None:
    with pytest.raises(InvalidCells, match=r"the op of row b'0' is 'drop': it is delete, "):
        lines_as_cells(erasures(["drop"]), TWO, TWO.groups[0], 9)
    hidden = pa.array([*sorted(HIDDEN_FAMILIES)[:1], "info"])
    with pytest.raises(InvalidArgument, match="which is reserved"):
        lines_as_cells(lines(_family=hidden), SCHEMA, SCHEMA.groups[0], 9)


def test_an_erasure_twice_is_one_and_a_cell_twice_is_refused() -> None:
    batch = erasures(["erase_row"])
    twice = pa.concat_batches([batch, batch])
    assert lines_as_cells(twice, TWO, TWO.groups[0], 9).num_rows == 1
    same = lines(_family=pa.array(["info"] * 2), _qualifier=pa.array([b"q"] * 2))
    same = same.drop_columns(["_timestamp"])
    with pytest.raises(InvalidCells, match=r"is there twice: .* or give each a timestamp"):
        lines_as_cells(same, SCHEMA, SCHEMA.groups[0], 9)
