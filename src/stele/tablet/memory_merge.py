"""Merging runs of a table's memory in the background, so that reads have few to look into."""

from __future__ import annotations

from stele.storage.memory_table import MergePlan
from stele.tablet.engine import Engine
from stele.tablet.table_state import TableState


def start_memory_merge(engine: Engine, state: TableState) -> bool:
    """Begin a merge if a tier is full and none is under way; it goes on until no tier is."""
    with engine.lock:
        if state.merging:
            return False
        plan = state.memory.plan_merge(engine.durable_txn)
        if plan is None:
            return False
        state.merging = True
        state.was_read = False
    engine.world.tasks.spawn(f"merge memory of {state.name}", lambda: _run(engine, state, plan))
    return True


def _run(engine: Engine, state: TableState, plan: MergePlan) -> None:
    following: MergePlan | None = plan
    while following is not None:
        fragment = following.run()
        with engine.lock:
            state.memory.install(following, fragment)
            engine.recount(state)
            following = state.memory.plan_merge(engine.durable_txn)
            state.merging = following is not None
        engine.admissions.look()
