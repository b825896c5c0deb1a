"""What waits for a table, or works on it, while it is dropped and perhaps brought back (T53)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.errors import NotFound, TableNotFound
from stele.model.numbered_writes import NumberedWrite
from stele.model.predicates import CellSpec, ScanSpec
from stele.model.ranges import EVERYTHING
from stele.tablet.changes import RaiseFloor
from stele.tablet.scan import FOLLOWING_MODES
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    config_of,
    erase_row,
    get,
    memory_world,
    open_backend,
    put,
    puts,
    values,
)

HOUR_US = 3_600_000_000
WAIT_S = 120

CALLS: dict[str, Callable[[EmbeddedTable], object]] = {
    "schema": lambda table: table.schema,
    "durable_txn": lambda table: table.durable_txn(),
    "pin": lambda table: table.pin(None, HOUR_US),
    "apply_numbered": lambda table: table.apply_numbered(
        NumberedWrite("w", 1), puts((b"a", "f", b"1")).to_arrow()
    ),
    "last_numbered": lambda table: table.last_numbered("w"),
    "look_for_changes": lambda table: table.look_for_changes(0),
    "pin_changes": lambda table: table.pin_changes(0, None, HOUR_US),
    "plan_compaction": lambda table: table.plan_compaction(EVERYTHING, 1, HOUR_US),
    "publish_compaction": lambda table: table.publish_compaction("j", "x", ()),
    "begin_import": lambda table: table.begin_import("j", HOUR_US),
    "renew_import": lambda table: table.renew_import("j", "x", HOUR_US),
    "commit_import": lambda table: table.commit_import("j", "x", ()),
    "replacing import": lambda table: table.commit_import("j", "x", (), replaces=True),
    "abort_import": lambda table: table.abort_import("j", "x"),
    "forget_import": lambda table: table.forget_import("j", "x"),
}
"""What jobs call; what everybody calls is in ``tests/unit/client/test_table_dropped.py``."""


def new_table() -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    table = backend.create_table("users", TWO_GROUPS, (b"m",))
    put(table, b"a", b"1")
    return backend, table


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_jobs_end_with_the_table(call: str) -> None:
    backend, table = new_table()
    backend.drop_table("users")
    with pytest.raises(TableNotFound, match="'users' was dropped"):
        CALLS[call](table)


def test_what_a_pin_holds_is_let_go_of_after_the_table() -> None:
    backend, table = new_table()
    plan = table.pin(None, HOUR_US)
    backend.drop_table("users")
    assert table.renew_pin(plan.lease, HOUR_US) >= plan.expires_us
    table.release_pin(plan.lease)
    with pytest.raises(NotFound, match="has ended"):
        table.renew_pin(plan.lease, HOUR_US)


def test_a_table_follows_its_name_and_its_schema_over_a_drop() -> None:
    backend, old = new_table()
    old.flush()
    backend.drop_table("users")
    backend.undrop_table("users")
    backend.rename_table("users", "people")
    assert old.name == "people"
    assert old.schema is backend.table("people").schema
    put(old, b"b", b"2")
    assert values(old) == values(backend.table("people")) == {(b"a", "f"): b"1", (b"b", "f"): b"2"}


@pytest.mark.parametrize("mode", ["snapshot", "any", *sorted(FOLLOWING_MODES)])
@pytest.mark.parametrize("back", [False, True])
def test_t53_no_mode_of_scan_survives_a_drop(mode: str, back: bool) -> None:
    backend, table = new_table()
    put(table, b"z", b"1")
    stream = table.scan(ScanSpec(mode=mode))  # type: ignore[arg-type]
    next(stream)
    backend.drop_table("users")
    if back:
        backend.undrop_table("users")
    with pytest.raises(TableNotFound, match="'users' was dropped"):
        next(stream)
    assert backend.reads.oldest(table.id) is None, "the scan holds nothing any more"


def test_an_old_state_changes_nothing_of_the_table_that_came_back() -> None:
    backend, table = new_table()
    engine, old = backend.store.user, table._state
    backend.drop_table("users")
    backend.undrop_table("users")
    configs = backend.store.meta1.configs(table.id)
    with pytest.raises(TableNotFound, match="'users' was dropped"):
        engine.change_and_wait(old, RaiseFloor(EVERYTHING, engine.durable_txn))
    with pytest.raises(TableNotFound, match="'users' was dropped"):
        engine.apply_to(old, puts((b"a", "f", b"lost")))
    with (
        pytest.raises(TableNotFound, match="'users' was dropped"),
        backend.jobs.layout_changes(old),
    ):
        pass
    assert backend.store.meta1.configs(table.id) == configs
    assert engine.newest(old) is table._state is not old


def test_an_old_state_is_not_compacted_split_or_joined() -> None:
    backend, table = new_table()
    table.flush()
    old, config = table._state, config_of(table, b"a")
    backend.drop_table("users")
    backend.undrop_table("users")
    with pytest.raises(TableNotFound, match="'users' was dropped"):
        backend.jobs.compact(old, config, "a", config.references)
    assert not backend.maintenance.join_if_due(old)
    assert backend.maintenance.last_error is None
    assert len(table.tablets()) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.flush(),
        lambda table: table.compact(),
        lambda table: table.split(b"k"),
        lambda table: table.truncate(),
    ],
)
def test_who_waits_for_the_files_of_a_table_hears_that_it_was_dropped(
    call: Callable[[EmbeddedTable], object],
) -> None:
    backend, table = new_table()
    engine, state = backend.store.user, table._state
    with ThreadPoolExecutor(1) as threads:
        with backend.jobs.layout_changes(state):
            asked = threads.submit(call, table)
            with engine.work_ended:
                while not len(state.line):
                    engine.work_ended.wait(0.01)
            engine.remove_table(table.id)  # as a drop does, alone with the table
        with pytest.raises(TableNotFound, match="'users' was dropped"):
            asked.result(WAIT_S)


def test_erasures_and_reads_in_the_past_are_the_same_over_a_drop() -> None:
    backend, table = new_table()
    before = table.durable_txn()
    erase_row(table, b"a")
    backend.drop_table("users")
    backend.undrop_table("users")
    assert get(table, b"a") == []
    found, _ = table.read_row(b"a", CellSpec(at=before))
    assert found is not None
