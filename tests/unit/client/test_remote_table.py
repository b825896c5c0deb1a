from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stele.client.remote_table import Described, ReceivedCells, RemoteTable
from stele.errors import DeadlineExceeded
from stele.model.cells import Cell
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec
from stele.model.row import Row
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.model.schema_json import schema_to_json
from stele.protocol.tables import TableDescription
from tests.oracles.model_backend import ModelBackend
from tests.unit.tserver.serving import remote

SECOND_US = 1_000_000


def put(row: bytes) -> MutationBatch:
    batch = MutationBatch()
    batch.put(row, "f", b"q", b"v", 9)
    return batch


def test_received_cells_are_those_of_a_row() -> None:
    cells = ReceivedCells(b"r", (("f", b"q", 9, 11, b"new"), ("f", b"q", 8, 10, b"old")))
    row = Row(b"r", cells)
    assert row["f:q"] == b"new"
    assert row.versions("f:q") == [(9, b"new"), (8, b"old")]
    assert row.cells[0] == Cell(b"r", "f", b"q", 9, b"new", txn=11)
    assert row.to_arrow().num_rows == 2


def test_a_schema_that_says_the_same_stays_the_same_object() -> None:
    text = schema_to_json(Schema())
    described = Described(TableDescription("t0", "a", text))
    before = described.schema
    described.learn(TableDescription("t0", "b", text))
    assert described.name == "b"
    assert described.schema is before


def test_a_schema_that_others_changed_is_noticed_by_any_answer(tmp_path: Path) -> None:
    backend = ModelBackend()
    backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (client, _):
        table = client.table("t")
        asks: list[Callable[[], object]] = [
            lambda: table.read_row(b"r", CellSpec()),
            lambda: table.read_rows(ReadSpec(rows=(b"r",))),
            lambda: table.apply(put(b"r")).wait(60 * SECOND_US),
        ]
        for number, ask in enumerate(asks):
            old = backend.table("t").schema
            columns = {f"f:c{i}": "int64" for i in range(number + 1)}
            backend.alter_table("t", alter(old, Schema(columns=columns)))
            ask()
            await_schema(table, backend.table("t").schema)
        assert len(table.schema.columns) == len(asks)


def await_schema(table: RemoteTable, wanted: Schema) -> None:
    for _ in range(1_000):
        if table.schema == wanted:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the new schema was never noticed")


def test_a_table_for_a_call_with_a_deadline(tmp_path: Path) -> None:
    backend = ModelBackend()
    backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (client, _):
        table = client.table("t")
        table.apply(put(b"r")).wait(60 * SECOND_US)
        quick = table.within(0)
        assert (quick.id, quick.name, quick.schema) == (table.id, table.name, table.schema)
        with pytest.raises(DeadlineExceeded):
            quick.read_row(b"r", CellSpec())
        with pytest.raises(DeadlineExceeded):
            quick.read_rows(ReadSpec(rows=(b"r",)))
        found, _ = table.within(60 * SECOND_US).read_row(b"r", CellSpec(versions=None))
        assert found is not None
        assert len(found.cells()) == 1
