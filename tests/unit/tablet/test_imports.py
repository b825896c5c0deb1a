"""Imports: all of a job or nothing of it, once, whatever happens in between."""

from __future__ import annotations

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.coordination.records import JobRecord, JobState
from stele.env.failpoints import SimulatedCrash, armed, crash, declared
from stele.env.memory import MemoryClock
from stele.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    OutOfSpace,
    StaleRow,
    TableNotFound,
    Unavailable,
)
from stele.model.columns import Column
from stele.model.groups import Group
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.storage.import_columns import ImportColumns
from stele.tablet.config import TabletConfig
from stele.tablet.imports import KEPT_US, running_tokens, settled
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    TWO_GROUPS,
    config_of,
    erase_row,
    get,
    get_many,
    memory_world,
    open_backend,
    put,
    puts,
    reopened,
    scan,
    values,
)
from tests.unit.tablet.import_support import (
    HOUR_US,
    import_cells,
    import_file,
    new_cell,
    row_erasure,
)

FAILPOINTS = sorted(name for name in declared() if name.startswith("tablet.import."))
ROWS = (b"a", b"k", b"p", b"z")
CELLS = [new_cell(row, family=family) for row in ROWS for family in ("f", "g")]
LOADED = {(row, family): b"imported" for row in ROWS for family in ("f", "g")}


def new_table(schema: Schema = TWO_GROUPS) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", schema, [b"m"])


def collect(backend: EmbeddedBackend) -> None:
    for _ in range(2):
        backend._settle_imports()
        backend.store.collect_garbage()


def advance(backend: EmbeddedBackend, span_us: int) -> None:
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    clock.advance(span_us)


def test_imported_cells_are_there_with_one_txn() -> None:
    backend, table = new_table()
    before = put(table, b"a", b"older")
    txn = import_cells(backend, table, "job", CELLS)
    assert txn > before
    assert table.durable_txn() >= txn
    found = scan(table, versions=None)
    assert {cell.txn for cell in found if cell.value == b"imported"} == {txn}
    assert (b"a", "g") in values(table)
    assert [cell.value for cell in get(table, b"k")] == [b"imported"] * 2
    assert len(get_many(table, ROWS)) == len(LOADED)
    assert b"k" not in {cell.row for cell in scan(table, at=txn - 1)}
    later = put(table, b"a", b"newer")
    assert later > txn
    table.compact()
    collect(backend)
    assert values(table) == {**LOADED, (b"a", "f"): b"newer"}
    assert config_of(table, b"a").imports == ()


def test_erasures_of_an_import_hide_what_was_there_before() -> None:
    backend, table = new_table()
    table.apply(puts((b"a", "f", b"v")), identity=(b"client", 1)).wait()
    put(table, b"a", family="g")
    put(table, b"b")
    import_cells(backend, table, "job", [row_erasure(b"a"), new_cell(b"c")])
    assert values(table) == {(b"b", "f"): b"v", (b"c", "f"): b"imported"}
    again = table.apply(puts((b"a", "f", b"v")), identity=(b"client", 1))
    assert again.wait() < table.durable_txn(), "hidden cells are not erased"


def test_a_job_is_done_once() -> None:
    backend, table = new_table()
    txn = import_cells(backend, table, "job", CELLS)
    assert table.begin_import("job", HOUR_US).txn == txn
    token = table.begin_import("job", HOUR_US).token
    assert table.commit_import("job", token, ()) == txn
    with pytest.raises(Conflict, match=f"committed at {txn}"):
        table.abort_import("job", token)
    with pytest.raises(Conflict, match="committed"):
        table.renew_import("job", token, HOUR_US)
    assert import_cells(backend, table, "other", [new_cell(b"b")]) > txn
    again = reopened(backend).table("t")
    assert again.begin_import("job", HOUR_US).txn == txn
    assert values(again) == LOADED | {(b"b", "f"): b"imported"}


def test_files_that_were_made_for_other_columns_are_refused() -> None:
    backend, table = new_table(Schema(columns={"f:q": "int32"}))
    ticket = table.begin_import("job", HOUR_US)
    made_for = ImportColumns.of(table.schema, [Column("f", b"q")])
    file = import_file(backend, ticket, [new_cell(b"a", b"\x00\x00\x00\x05")])
    for columns in ({}, {"f:q": "string"}):
        backend.alter_table("t", alter(table.schema, Schema(columns=columns)))
    sentence = "'t' was altered while the job ran: column 'f:q' was int32 and is string; nothing"
    with pytest.raises(Conflict, match=sentence):
        table.commit_import("job", ticket.token, [file], columns=made_for)
    assert values(table) == {}
    assert config_of(table, b"a").imports == ()
    again = ImportColumns.of(table.schema, [Column("f", b"q")])
    more = Schema(columns={"f:q": "string", "f:other": "int64"})
    backend.alter_table("t", alter(table.schema, more))
    table.commit_import("job", ticket.token, [file], columns=again)
    assert len(values(table)) == 1


def test_only_the_newest_attempt_may_publish() -> None:
    backend, table = new_table()
    old = table.begin_import("job", HOUR_US)
    file = import_file(backend, old, CELLS[:1])
    new = table.begin_import("job", HOUR_US)
    for refused in (
        lambda: table.commit_import("job", old.token, [file]),
        lambda: table.abort_import("job", old.token),
        lambda: table.renew_import("job", old.token, HOUR_US),
    ):
        with pytest.raises(InvalidArgument, match="another attempt"):
            refused()
    with pytest.raises(InvalidArgument, match="not written for this attempt"):
        table.commit_import("job", new.token, [file])
    collect(backend)
    assert file.name not in backend.store.world.files.list("fragments")
    with pytest.raises(NotFound, match="'unknown'"):
        table.commit_import("unknown", new.token, ())
    for bad in ("", "x" * 201, "a\nb"):
        with pytest.raises(InvalidArgument, match="name of a job"):
            table.begin_import(bad, HOUR_US)


def test_an_aborted_job_leaves_nothing_and_may_be_run_again() -> None:
    backend, table = new_table()
    ticket = table.begin_import("job", HOUR_US)
    file = import_file(backend, ticket, CELLS[:1])
    with armed("tablet.import.after_prepare", crash()), pytest.raises(SimulatedCrash):
        table.commit_import("job", ticket.token, [file])
    backend = reopened(backend)
    table = backend.table("t")
    assert config_of(table, b"a").imports, "prepared files survive"
    assert values(table) == {}
    table.abort_import("job", ticket.token)
    table.abort_import("job", ticket.token)
    assert config_of(table, b"a").imports == ()
    with pytest.raises(Conflict, match="given up: run it again"):
        table.commit_import("job", ticket.token, [file])
    collect(backend)
    assert file.name not in backend.store.world.files.list("fragments")
    import_cells(backend, table, "job", CELLS)
    assert values(table) == LOADED


def test_a_dead_drivers_job_is_given_up_and_a_renewed_one_is_not() -> None:
    backend, table = new_table()
    dead, alive = table.begin_import("dead", HOUR_US), table.begin_import("alive", HOUR_US)
    lost, kept = (import_file(backend, t, CELLS[:1]) for t in (dead, alive))
    advance(backend, HOUR_US // 2)
    assert table.renew_import("alive", alive.token, HOUR_US) > 0
    collect(backend)
    assert {lost.name, kept.name} <= set(backend.store.world.files.list("fragments"))
    advance(backend, HOUR_US // 2 + 1)
    collect(backend)
    names = backend.store.world.files.list("fragments")
    assert lost.name not in names
    assert kept.name in names
    with pytest.raises(Conflict, match="its lease has run out"):
        table.commit_import("dead", dead.token, ())
    table.commit_import("alive", alive.token, [kept])
    assert values(table) == {(b"a", "f"): b"imported"}
    advance(backend, KEPT_US + HOUR_US)
    collect(backend)
    assert backend.store.coordination.jobs() == ()
    assert values(table) == {(b"a", "f"): b"imported"}


def test_prepared_files_survive_splits_joins_and_regrouping() -> None:
    backend, table = new_table()
    ticket = table.begin_import("job", HOUR_US)
    files = [import_file(backend, ticket, [c for c in CELLS if c.family == f]) for f in "fg"]
    with armed("tablet.import.after_prepare", crash()), pytest.raises(SimulatedCrash):
        table.commit_import("job", ticket.token, files)
    backend = reopened(backend)
    table = backend.table("t")
    table.split(b"c")
    table.join(b"m")
    table.split(b"q")
    backend.alter_table("t", Schema([Group("all", block_cells=256)], version=2))
    collect(backend)
    assert sorted(config_of(table, b"z").files()) == sorted(file.name for file in files)
    table.truncate()
    clone = backend.clone_table("t", "clone")
    assert config_of(clone, b"a").imports == ()
    table.commit_import("job", ticket.token, files)
    assert values(table) == LOADED
    assert values(clone) == {}
    table.compact()
    assert values(reopened(backend).table("t")) == LOADED


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_crash_at_any_step_leaves_all_or_nothing(name: str) -> None:
    backend, table = new_table()
    put(table, b"b", b"kept")

    def work() -> None:
        if name.endswith("after_abort"):
            table.abort_import("job", table.begin_import("job", HOUR_US).token)
        import_cells(backend, table, "job", CELLS)

    with armed(name, crash()), pytest.raises(SimulatedCrash):
        work()
    backend = reopened(backend)
    table = backend.table("t")
    kept = {(b"b", "f"): b"kept"}
    decided = name.endswith(("after_decision", "after_shown"))
    assert values(table) == (kept | LOADED if decided else kept)
    collect(backend)
    txn = import_cells(backend, table, "job", CELLS)
    assert values(table) == kept | LOADED
    assert {cell.txn for cell in scan(table, versions=None) if cell.row != b"b"} == {txn}
    assert put(table, b"a", b"newer") > txn
    assert values(reopened(backend).table("t")) == kept | LOADED | {(b"a", "f"): b"newer"}


def test_row_transactions_notice_an_import() -> None:
    backend, table = new_table()
    read_at = put(table, b"a")
    import_cells(backend, table, "job", [new_cell(b"a"), new_cell(b"c")])
    for row in (b"a", b"b"):
        with pytest.raises(StaleRow):
            table.apply(puts((row, "f", b"x")), max_txn=read_at)
    table.apply(puts((b"a", "f", b"x")), max_txn=table.durable_txn()).wait()


def test_what_is_decided_and_cannot_be_shown_makes_reads_fail_until_it_is() -> None:
    backend, table = new_table()
    ticket = table.begin_import("job", HOUR_US)
    file = import_file(backend, ticket, CELLS[:1])
    engine = backend.store.user
    save = engine.config_writer._store.save
    edits = []

    def fail_second(edit: object, done: object) -> None:
        edits.append(edit)
        if len(edits) == 2:
            done(OutOfSpace("no room"))  # type: ignore[operator]
        else:
            save(edit, done)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.config_writer._store, "save", fail_second)
        with pytest.raises(OutOfSpace):
            table.commit_import("job", ticket.token, [file])
        with pytest.raises(Unavailable, match="no room"):
            table.read_row(b"a", CellSpec())
        collect(backend)
    assert values(table) == {(b"a", "f"): b"imported"}


def test_files_that_do_not_fit_are_refused() -> None:
    backend, table = new_table()
    ticket = table.begin_import("job", HOUR_US)
    numbered = import_file(backend, ticket, [new_cell(b"a").__class__(b"a", "f", b"q", 1, txn=7)])
    with pytest.raises(InvalidArgument, match="numbered already"):
        table.commit_import("job", ticket.token, [numbered])
    narrow = backend.create_table("narrow", Schema([Group("only", ["f"], block_cells=256)]))
    ticket = narrow.begin_import("job", HOUR_US)
    wrong = import_file(backend, ticket, [new_cell(b"a", family="g")])
    with pytest.raises(InvalidArgument, match="family 'g'"):
        narrow.commit_import("job", ticket.token, [wrong])
    assert values(narrow) == {}
    backend.drop_table("narrow")
    with pytest.raises(TableNotFound):
        narrow.commit_import("job", ticket.token, ())
    backend.undrop_table("narrow")


def test_erasing_after_an_import_hides_it() -> None:
    backend, table = new_table(ONE_GROUP)
    import_cells(backend, table, "job", [new_cell(b"a"), new_cell(b"b")])
    erase_row(table, b"a")
    table.compact()
    assert values(table) == {(b"b", "f"): b"imported"}


def test_what_a_new_owner_makes_of_jobs() -> None:
    config = TabletConfig("t.1", "t", RowRange())
    assert settled(config, ()) is config
    running = JobRecord("r", "t", "i1", JobState.RUNNING, 0, 1)
    done = JobRecord("d", "t", "i2", JobState.COMMITTED, 0, 1, 5)
    assert running_tokens([running, done]) == {"i1"}
