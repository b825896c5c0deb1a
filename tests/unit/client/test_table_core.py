"""First halves of calls: specifications, and updates that meet conflicts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stele.client.handle import Handle
from stele.client.table_core import NEWEST, UPDATE_TRIES_MAX, Decision, TableCore, selection
from stele.client.waiting import ClientWorld
from stele.env.memory import MemoryClock, SeededRandom
from stele.errors import StaleRow, TransientIoError
from stele.model.columns import EVERY_COLUMN, Column
from stele.model.filters import prefix
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec
from stele.model.schema import Schema
from tests.oracles.model_backend import ModelBackend


def new_core(pauses: list[int] | None = None) -> TableCore:
    pause = (lambda _: None) if pauses is None else pauses.append
    world = ClientWorld(MemoryClock(), SeededRandom(1), pause)
    return TableCore(ModelBackend().create_table("t", Schema()), world, Handle("it"))


def written(value: bytes) -> MutationBatch:
    batch = MutationBatch()
    batch.put(b"a", "f", b"q", value)
    return batch


def test_a_plain_read_makes_no_specification() -> None:
    core = new_core()
    assert core.cell_spec(None, 1, None, (), None, None) is NEWEST
    spec = core.cell_spec("f:q", 2, (1, 2), prefix("value", b"x"), 3, 7)
    assert (spec.versions, spec.time_start, spec.time_end, spec.at) == (2, 1, 2, 7)
    assert (len(spec.filters), spec.cells_per_row) == (1, 3)
    assert core.cell_spec(None, 1, None, [prefix("row", b"x")], None, None).filters


def test_selections_of_names_are_parsed_once() -> None:
    assert selection(["f:q", "g:"]) is selection(("f:q", "g:"))
    assert selection("f:q") == selection([Column("f", b"q")])
    assert selection(None) == EVERY_COLUMN


def test_the_encoder_follows_the_schema() -> None:
    core = new_core()
    assert core.encoder is core.encoder
    before = core.encoder
    core.backend.schema = Schema(columns={"f:q": "int8"}, version=2)  # type: ignore[misc]
    assert core.encoder is not before
    assert core.encoder.schema is core.schema


@pytest.mark.parametrize("timeout", [None, "1s"])
def test_a_failed_read_is_tried_again(timeout: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    core = new_core()
    core.backend.apply(written(b"v"))
    read_row = core.backend.read_row
    failures = [TransientIoError("eio"), TransientIoError("eio")]

    def fails_first(row: bytes, spec: CellSpec) -> object:
        if failures:
            raise failures.pop()
        return read_row(row, spec)

    monkeypatch.setattr(core.backend, "read_row", fails_first)
    assert core.read(b"a", NEWEST, timeout) is not None
    assert failures == []


def test_an_update_that_loses_reads_again() -> None:
    core = new_core()
    seen: list[int] = []

    def decide(found: pa.RecordBatch | None) -> Decision[int]:
        seen.append(0 if found is None else found.num_rows)
        if len(seen) == 1:
            core.backend.apply(written(b"rival"))
        return Decision(written(b"mine"), len(seen))

    started = core.start_update(b"a", EVERY_COLUMN, decide, core.world.deadline())
    assert (started.answer, seen) == (2, [0, 1])
    assert started.pending is not None


def test_an_update_that_always_loses_gives_up() -> None:
    pauses: list[int] = []
    core = new_core(pauses)

    def decide(_found: pa.RecordBatch | None) -> Decision[None]:
        core.backend.apply(written(b"rival"))
        return Decision(written(b"mine"), None)

    with pytest.raises(StaleRow, match=f"{UPDATE_TRIES_MAX} times"):
        core.start_update(b"a", EVERY_COLUMN, decide, core.world.deadline())
    assert len(pauses) == UPDATE_TRIES_MAX


def test_an_update_that_writes_nothing_waits_for_what_it_saw() -> None:
    core = new_core()
    durable = core.backend.durable_txn()
    started = core.start_update(
        b"a", EVERY_COLUMN, lambda _: Decision(None, "no"), core.world.deadline()
    )
    assert (started.pending, started.answer) == (None, "no")
    core.reach(b"a", EVERY_COLUMN, durable + 10)
    assert core.backend.durable_txn() == durable + 10
