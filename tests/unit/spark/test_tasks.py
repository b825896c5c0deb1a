"""A task travels as bytes and reads files, wherever it runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import stele
from stele.errors import Corruption
from stele.model.cells import Cell, cells_to_batch
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark import tasks as tasks_module
from stele.spark.partition_policy import Piece, cut_evenly
from stele.spark.requests import ReadRequest
from stele.spark.tasks import gathered, make_tasks, run_numbered, run_task
from stele.storage.read_plan import ReadPlan, decode_plan, encode_plan

ROWS = 300


@pytest.fixture
def plan(tmp_path: Path) -> ReadPlan:
    with stele.open(tmp_path) as db:
        users = db.create_table("users", stele.Schema(columns={"info:n": "int64"}), [b"row100"])
        for number in range(ROWS):
            users.put(b"row%03d" % number, {"info:n": number, "x:y": b"z"})
        found = users.core.backend.pin(None, 3_600_000_000)
    return decode_plan(encode_plan(found))


def test_tasks_read_the_whole_table_after_its_owner_is_gone(plan: ReadPlan) -> None:
    request = ReadRequest()
    pieces = cut_evenly(plan.tablets, [EVERYTHING], 3)
    tasks = make_tasks(plan, request, pieces)
    lines = [line for task in tasks for batch in run_task(task) for line in batch.to_pylist()]
    assert lines == [{"row": b"row%03d" % n, "info:n": n} for n in range(ROWS)]
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(tasks)))})
    again = [line for batch in run_numbered(tasks, iter([numbers])) for line in batch.to_pylist()]
    assert again == lines


def test_a_task_gives_the_columns_it_is_asked_for(plan: ReadPlan) -> None:
    pieces = [(Piece(RowRange(b"row007", b"row008"), plan.tablets[0].references),)]
    (task,) = make_tasks(plan, ReadRequest(shape="cells"), pieces, ("value", "row"))
    (batch,) = run_task(task)
    assert batch.schema.names == ["value", "row"]
    assert batch.num_rows == 2


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(Corruption, match="not a task"):
        list(run_task(b"\xc1"))


def test_batches_are_gathered_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def batch(row: bytes, family: str) -> pa.RecordBatch:
        return cells_to_batch([Cell(row, family, b"q", 1, b"v" * 100, txn=1)])

    parts = [batch(b"%02d" % n, "ab"[n % 2]) for n in range(10)]
    monkeypatch.setattr(tasks_module, "BATCH_CELLS", 4)
    found = list(gathered(parts))
    assert [each.num_rows for each in found] == [4, 4, 2]
    assert pa.Table.from_batches(found).column("row").to_pylist() == [
        b"%02d" % n for n in range(10)
    ]
    families = [name for each in found for name in each.column("family").to_pylist()]
    assert families == list("ababababab")
    monkeypatch.setattr(tasks_module, "BATCH_BYTES", 1)
    assert [each.num_rows for each in gathered(parts)] == [1] * 10
    assert list(gathered([])) == []
