"""Merging memory in the background."""

from __future__ import annotations

from stele.model.cells import batch_to_cells
from stele.model.mutations import MutationBatch
from stele.tablet.engine import Engine
from stele.tablet.memory_merge import start_memory_merge
from stele.tablet.table_state import TableState
from tests.unit.tablet.engine_support import (
    TABLE,
    SavedConfigs,
    memory_world,
    new_engine,
    puts,
    served,
)


def with_batches(count: int) -> tuple[Engine, TableState]:
    engine = new_engine(memory_world(), SavedConfigs())
    state = served(engine)
    for number in range(count):
        batch = MutationBatch()
        for row in range(100):
            batch.put(b"%04d" % row, "f", b"%d" % number, b"v")
        engine.apply(TABLE, batch).wait()
    return engine, state


def found(state: TableState) -> set[tuple[bytes, bytes]]:
    blocks = state.memory.version.blocks(1 << 62)
    return {(each.row, each.qualifier) for part in blocks for each in batch_to_cells(part.batch)}


def test_many_runs_become_few_and_hold_the_same() -> None:
    engine, state = with_batches(20)
    before, runs = found(state), len(state.memory.version.runs())
    assert start_memory_merge(engine, state)
    assert found(state) == before
    assert len(state.memory.version.runs()) < runs
    assert not state.merging
    assert engine.memory_bytes == state.memory.size_bytes


def test_nothing_is_merged_when_no_tier_is_full_or_a_merge_is_under_way() -> None:
    engine, state = with_batches(1)
    assert not start_memory_merge(engine, state)
    engine, state = with_batches(20)
    state.merging = True
    assert not start_memory_merge(engine, state)


def test_what_comes_in_during_a_merge_is_not_lost() -> None:
    engine, state = with_batches(20)
    plan = state.memory.plan_merge(engine.durable_txn)
    assert plan is not None
    merged = plan.run()
    engine.apply(TABLE, puts((b"late", "f", b"v"), qualifier=b"late")).wait()
    with engine.lock:
        state.memory.install(plan, merged)
    assert (b"late", b"late") in found(state)
    assert len(found(state)) == 2001
