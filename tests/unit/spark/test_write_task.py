"""What a task of a write answers: mutations while they are few, files when they are many."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import stele
from stele.client.backend import TableBackend
from stele.errors import InvalidCells, LimitExceeded
from stele.model.cells import Op, batch_to_cells
from stele.model.schema_json import schema_to_json
from stele.spark.write_form import write_form
from stele.spark.write_task import WriteTask, run_write
from stele.storage.import_files import token_of

HOUR_US = 3_600_000_000
SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", block_cells=256)],
    columns={"info:age": "int64"},
)
TYPES = {"id": "string", "info:age": "bigint", "a:x": "string", "op": "string"}
CELL_TYPES = {
    "row": "binary",
    "family": "string",
    "qualifier": "binary",
    "value": "binary",
    "op": "string",
}


def lines(first: int, count: int) -> pa.RecordBatch:
    """Rows in falling order, every tenth of which goes."""
    numbers = range(first + count - 1, first - 1, -1)
    return pa.RecordBatch.from_pydict(
        {
            "id": [f"p{number:06}" for number in numbers],
            "info:age": list(numbers),
            "a:x": [f"x{number}" for number in numbers],
            "op": ["delete" if number % 10 == 0 else "put" for number in numbers],
        }
    )


def task_for(backend: TableBackend, inline_bytes_max: int) -> WriteTask:
    return WriteTask(
        ticket=backend.begin_import("job", HOUR_US),
        table="people",
        schema_json=schema_to_json(SCHEMA).decode(),
        form=write_form(SCHEMA, TYPES, row="id", op="op"),
        inline_bytes_max=inline_bytes_max,
        memory_bytes_max=20_000,
    )


@pytest.fixture
def table(tmp_path: Path) -> Iterator[stele.Table]:
    with stele.open(tmp_path / "db") as database:
        yield database.create_table("people", SCHEMA)


def test_few_lines_travel_in_the_answer(table: stele.Table) -> None:
    task = task_for(table.core.backend, 1 << 20)
    part = run_write(task, [lines(0, 20), lines(20, 20)], 0, 0)
    assert (part.lines, part.cells, part.files) == (40, 36 * 2 + 4, ())
    assert part.mutations is not None
    assert part.mutations.num_rows == part.cells
    nothing = run_write(task, [lines(0, 20).slice(0, 0)], 0, 0)
    assert (nothing.lines, nothing.mutations, nothing.files) == (0, None, ())


def test_many_lines_become_files_that_hold_the_same(table: stele.Table) -> None:
    backend = table.core.backend
    task = task_for(backend, 10_000)
    batches = [lines(first, 250) for first in (500, 0, 250)]
    part = run_write(task, batches, 3, 7)
    assert (part.lines, part.cells, part.mutations) == (750, 675 * 2 + 75, None)
    assert {token_of(info.name) for info in part.files} == {task.ticket.token}
    assert len(part.files) >= 2, "one for each group at least"
    again = run_write(task, batches, 3, 8)
    assert not {info.name for info in part.files} & {info.name for info in again.files}
    small = run_write(task_for(backend, 1 << 30), batches, 3, 9)
    assert small.mutations is not None
    task = task_for(backend, 10_000)
    files = run_write(task, batches, 0, 0).files
    txn = backend.commit_import("job", task.ticket.token, files)
    expected = {
        (cell.row, cell.family, cell.value)
        for cell in batch_to_cells(small.mutations)
        if cell.op is Op.PUT
    }
    found = [cell for row in table.scan() for cell in row.cells]
    assert {(cell.row, cell.family, cell.value) for cell in found} == expected
    assert {cell.txn for cell in found} == {txn}


def test_what_is_there_twice_is_refused_in_both_forms(table: stele.Table) -> None:
    for inline_bytes_max in (1 << 20, 1_000):
        task = task_for(table.core.backend, inline_bytes_max)
        with pytest.raises(InvalidCells, match="there twice"):
            run_write(task, [lines(0, 40), lines(20, 40)], 0, 0)


def test_a_task_leaves_nothing_in_its_temporary_directory(
    table: stele.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "tmp"
    mine.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(mine))
    run_write(task_for(table.core.backend, 1_000), [lines(0, 2_000)], 0, 0)
    assert os.listdir(mine) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"op": "erase_row"}, "names a family"),
        ({"op": "erase_family", "value": b""}, "erases more than a column"),
        ({"op": "erase_cell", "value": b""}, "names no timestamp"),
        ({"row": b"r" * 70_000}, "row of 70000 bytes"),
        ({"qualifier": b"q" * 70_000}, "qualifier of 70000 bytes"),
    ],
)
def test_files_hold_nothing_that_the_table_would_refuse(
    table: stele.Table, changes: dict[str, object], said: str
) -> None:
    cell = {"row": b"r", "family": "a", "qualifier": b"x", "value": b"v", "op": "put", **changes}
    form = write_form(SCHEMA, CELL_TYPES)
    task = msgspec.structs.replace(task_for(table.core.backend, 0), form=form)
    with pytest.raises((InvalidCells, LimitExceeded), match=said):
        run_write(task, [pa.RecordBatch.from_pylist([cell])], 0, 0)


def test_many_columns_are_made_a_piece_at_a_time(table: stele.Table) -> None:
    names = [f"a:{number}" for number in range(1_000)]
    form = write_form(SCHEMA, {"id": "string", **dict.fromkeys(names, "string")}, row="id")
    task = msgspec.structs.replace(task_for(table.core.backend, 1 << 30), form=form)
    values = pa.array(["x"] + [None] * 4_999)
    given = {"id": [f"p{number:05}" for number in range(5_000)], **dict.fromkeys(names, values)}
    part = run_write(task, [pa.RecordBatch.from_pydict(given)], 0, 0)
    assert (part.lines, part.cells) == (5_000, 1_000), "of five million places for a cell"
