"""What an owner of a directory says it has done is what it has done, and how that went."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.failpoints import SimulatedCrash, armed, crash, fail
from stele.env.memory import MemoryClock
from stele.errors import AlreadyExists, Conflict, InvalidArgument, OutOfSpace, SteleError
from stele.model.groups import Group
from stele.model.operations import Operation, OperationKind, OperationState
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.storage.import_files import RESTORE_JOB
from stele.tablet.options import EngineOptions
from stele.tablet.split_policy import SizeLimits
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    memory_world,
    open_backend,
    put,
    reopened,
)
from tests.unit.tablet.external_support import carried_out, compact_elsewhere, planned, published
from tests.unit.tablet.import_support import HOUR_US, import_cells, import_file, new_cell

DONE, FAILED, CANCELLED = (
    OperationState.DONE,
    OperationState.FAILED,
    OperationState.CANCELLED,
)
BROKEN_FILE = "storage.fragment.after_footer"


def new_table() -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", TWO_GROUPS, [b"m"])


def fill(table: EmbeddedTable) -> None:
    for row in (b"a", b"k", b"p"):
        put(table, row, b"v")
        put(table, row, b"w", family="g")


def listed(backend: EmbeddedBackend, kind: OperationKind) -> list[Operation]:
    return [one for one in backend.operations() if one.kind is kind]


def last(backend: EmbeddedBackend, kind: OperationKind) -> Operation:
    return listed(backend, kind)[-1]


def pass_time(backend: EmbeddedBackend, duration_us: int) -> None:
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    clock.advance(duration_us)


def test_a_flush_says_what_it_took_and_what_became_of_it() -> None:
    backend, table = new_table()
    fill(table)
    table.flush()
    flush = last(backend, OperationKind.FLUSH)
    assert (flush.table, flush.tablet, flush.state, flush.error) == ("t", None, DONE, None)
    assert flush.cells == 6
    assert flush.bytes_in > 0
    references = [ref for config in table._state.layout.tablets for ref in config.references]
    assert flush.bytes_out == sum(file.total_bytes for file in {ref.file for ref in references})
    table.flush()
    assert last(backend, OperationKind.FLUSH) == flush, "there was nothing to do"


def test_commits_and_reads_are_no_operations() -> None:
    backend, table = new_table()
    before = backend.operations()
    fill(table)
    assert backend.operations() == before


def test_a_compaction_names_its_tablet_and_group() -> None:
    backend, table = new_table()
    for _ in range(2):
        fill(table)
        table.flush()
    table.compact(RowRange(b"", b"m"))
    first = table.tablets()[0]
    found = listed(backend, OperationKind.COMPACTION)
    assert [(one.tablet, one.detail, one.state) for one in found] == [
        (first.id, "group a", DONE),
        (first.id, "group b", DONE),
    ]
    assert all(one.cells == 4 and one.bytes_in > 0 and one.bytes_out > 0 for one in found)


@pytest.mark.parametrize(
    ("kind", "work"),
    [
        (OperationKind.FLUSH, lambda table: table.flush()),
        (OperationKind.COMPACTION, lambda table: table.compact()),
    ],
)
def test_what_fails_is_shown_with_its_sentence(
    kind: OperationKind, work: Callable[[EmbeddedTable], None]
) -> None:
    backend, table = new_table()
    fill(table)
    if kind is OperationKind.COMPACTION:
        table.flush()
    with armed(BROKEN_FILE, fail(OutOfSpace)), pytest.raises(SteleError):
        work(table)
    failed = last(backend, kind)
    assert (failed.state, failed.error) == (FAILED, f"failpoint {BROKEN_FILE}")
    assert failed.ended_us is not None
    work(table)
    assert last(backend, kind).state is DONE


def test_what_runs_is_listed_while_it_runs() -> None:
    backend, table = new_table()
    fill(table)
    seen: list[Operation] = []
    with armed(BROKEN_FILE, lambda _name: seen.append(backend.operations()[-1])):
        table.flush()
    assert {(one.kind, one.state, one.ended_us) for one in seen} == {
        (OperationKind.FLUSH, OperationState.RUNNING, None)
    }


def test_changes_of_a_table() -> None:
    backend, table = new_table()
    fill(table)
    table.split(b"k")
    table.split(b"k")
    table.join(b"k")
    with pytest.raises(InvalidArgument):
        table.join(b"x")
    table.truncate(RowRange(b"", b"b"))
    table.snapshot("before")
    backend.clone_table("t", "copy")
    with pytest.raises(AlreadyExists):
        backend.clone_table("t", "copy")
    backend.drop_table("copy")
    backend.undrop_table("copy")
    known = [OperationKind.RECOVERY, OperationKind.FLUSH]
    told = [
        (one.kind.value, one.table, one.detail, one.state)
        for one in backend.operations()
        if one.kind not in known
    ]
    assert told == [
        ("create", "t", "", DONE),
        ("split", "t", "at b'k'", DONE),
        ("join", "t", "at b'k'", DONE),
        ("join", "t", "at b'x'", FAILED),
        ("truncate", "t", f"rows {RowRange(b'', b'b')}", DONE),
        ("snapshot", "t", "before", DONE),
        ("clone", "t", "as copy", DONE),
        ("clone", "t", "as copy", FAILED),
        ("drop", "copy", "", DONE),
        ("undrop", "copy", "", DONE),
    ]


def test_a_schema_with_other_groups_regroups() -> None:
    backend, table = new_table()
    longer = alter(table.schema, Schema(table.schema.groups, history="2h"))
    backend.alter_table("t", longer)
    backend.alter_table("t", alter(longer, Schema([Group("both", ["f"]), Group("rest")])))
    told = [(one.kind.value, one.detail) for one in backend.operations()][-2:]
    assert told == [("alter", "schema version 2"), ("regroup", "schema version 3")]


def test_splits_and_joins_that_nobody_asked_for() -> None:
    options = EngineOptions(background=False, sizes=SizeLimits(split_bytes=2_000))
    backend = open_backend(memory_world(), options)
    table = backend.create_table("t", TWO_GROUPS)
    for number in range(1_000):
        put(table, b"%04d" % number, b"%d" % number)
    table.flush()
    config = next(iter(table._state.layout.tablets))
    assert backend.maintenance.split_if_due(table._state, config)
    split = last(backend, OperationKind.SPLIT)
    assert (split.tablet, split.state, split.detail) == (config.id, DONE, "by its size")
    table.truncate()
    lower = next(iter(table._state.layout.tablets))
    assert backend.maintenance.join_if_due(table._state)
    join = last(backend, OperationKind.JOIN)
    assert (join.tablet, join.state) == (lower.id, DONE)


def test_imports() -> None:
    backend, table = new_table()
    import_cells(backend, table, "nightly", [new_cell(b"a"), new_cell(b"b")])
    done = last(backend, OperationKind.IMPORT)
    assert (done.detail, done.state, done.cells) == ("job nightly", DONE, 2)
    assert done.bytes_in > 0
    import_cells(backend, table, "nightly", [new_cell(b"a")])
    assert last(backend, OperationKind.IMPORT) == done, "it was done before"
    import_cells(backend, table, f"{RESTORE_JOB}7", [new_cell(b"c")])
    assert last(backend, OperationKind.RESTORE).state is DONE


def test_imports_that_come_to_nothing() -> None:
    backend, table = new_table()
    wrong = table.begin_import("wrong", HOUR_US)
    other = table.begin_import("other", HOUR_US)
    file = import_file(backend, other, [new_cell(b"a")])
    with pytest.raises(InvalidArgument):
        table.commit_import("wrong", wrong.token, [file])
    failed = last(backend, OperationKind.IMPORT)
    assert failed.state is FAILED
    assert failed.error is not None
    assert "was not written for this attempt" in failed.error
    table.abort_import("wrong", wrong.token)
    pass_time(backend, 2 * HOUR_US)
    backend._settle_imports()
    given_up = listed(backend, OperationKind.IMPORT)[1:]
    assert [(one.detail, one.state, one.error) for one in given_up] == [
        ("job wrong", CANCELLED, "whoever ran it gave it up"),
        ("job other", CANCELLED, "nobody renewed it in time"),
    ]


def test_a_compaction_elsewhere_and_one_that_came_too_late() -> None:
    backend, table = new_table()
    for _ in range(2):
        fill(table)
        table.flush()
    late = table.begin_import("late", HOUR_US)
    units = carried_out(backend, late, planned(table))
    compact_elsewhere(backend, table, "first")
    published(table, late, units)
    first, second = listed(backend, OperationKind.COMPACTION)
    assert (first.detail, first.state, first.cells) == ("job first", DONE, 12)
    assert (second.detail, second.state) == ("job late", CANCELLED)
    assert second.error is not None
    assert "no longer shows all that was merged" in second.error
    assert listed(backend, OperationKind.IMPORT) == [], "a compaction is no import"


def test_a_compaction_that_the_end_of_the_store_cuts_short() -> None:
    backend, table = new_table()
    fill(table)
    table.flush()
    backend.maintenance._stopped = True
    with pytest.raises(SteleError):
        table.compact()
    given_up = last(backend, OperationKind.COMPACTION)
    assert given_up.state is CANCELLED
    assert given_up.error is not None
    assert "is being closed" in given_up.error


def test_recovery_is_the_first_operation_of_an_owner() -> None:
    backend, table = new_table()
    assert [one.kind for one in backend.operations()][:1] == [OperationKind.RECOVERY]
    fill(table)
    again = reopened(backend)
    (recovery,) = again.operations()
    assert (recovery.id, recovery.state, recovery.cells) == (1, DONE, 6)
    assert recovery.bytes_out > 0


def test_collections_are_told_of_when_they_find_something() -> None:
    backend, table = new_table()
    fill(table)
    table.flush()
    backend.store.collect_garbage()
    assert listed(backend, OperationKind.COLLECTION) == []
    put(table, b"a", b"again")
    with armed("tablet.flush.after_fragments", crash()), pytest.raises(SimulatedCrash):
        table.flush()
    again = reopened(backend)
    for _ in range(3):
        again.store.collect_garbage()
    found = listed(again, OperationKind.COLLECTION)
    assert [one.state for one in found] == [DONE, DONE]
    assert "moved to the trash, 0 deleted" in found[0].detail
    assert found[1].detail.startswith("0 files moved to the trash, ")
    again.store.closed = True
    with pytest.raises(SteleError):
        again.store.collect_garbage()
    assert last(again, OperationKind.COLLECTION).state is FAILED


def test_a_conflict_of_schemas_changes_nothing_and_is_no_operation() -> None:
    backend, table = new_table()
    before = backend.operations()
    with pytest.raises(Conflict):
        backend.alter_table("t", table.schema)
    assert backend.operations() == before
