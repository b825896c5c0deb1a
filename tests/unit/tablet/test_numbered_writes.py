"""Numbered writes: once, in whichever form they come, whatever happens in between."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.failpoints import SimulatedCrash, armed, crash, declared
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import InvalidArgument, InvalidCells, NotFound, OutOfSpace, Unavailable
from stele.model.cells import Cell, no_mutations
from stele.model.columns import HIDDEN_COLUMNS
from stele.model.mutations import MutationBatch
from stele.model.numbered_writes import KEPT_US, LastWrite, NumberedWrite, writer_row
from stele.model.schema import Schema
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    config_of,
    erase_row,
    memory_world,
    open_backend,
    puts,
    reopened,
    scan,
    values,
)
from tests.unit.tablet.import_support import HOUR_US, import_file, new_cell

FAILPOINTS = sorted(
    name for name in declared() if name.startswith(("tablet.import.", "tablet.numbered."))
)


def new_table(schema: Schema = TWO_GROUPS) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", schema, [b"m"])


def small(number: int, writer: str = "w") -> tuple[NumberedWrite, pa.RecordBatch]:
    value = b"%d" % number
    return NumberedWrite(writer, number), puts((b"a", "f", value), (b"z", "g", value)).to_arrow()


def large(backend: EmbeddedBackend, number: int, job: str | None = None) -> int:
    """The same write as files."""
    table = backend.table("t")
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    clock.advance(1_000)  # files that are begun at the txn of a put would replace it
    ticket = table.begin_import(job or f"job {number}", HOUR_US)
    value = b"%d" % number
    files = [
        import_file(backend, ticket, [Cell(row, family, b"q", ticket.timestamp, value)])
        for row, family in ((b"a", "f"), (b"z", "g"))
    ]
    return table.commit_import(ticket.job, ticket.token, files, NumberedWrite("w", number))


def commits(table: EmbeddedTable) -> int:
    """How often something took effect."""
    return len({cell.txn for cell in scan(table, versions=None)})


def remembered(table: EmbeddedTable) -> int:
    """How many cells remember writes, in files."""
    config = config_of(table, writer_row("w"))
    return sum(
        reference.file.summary.cells
        for reference in config.references
        if HIDDEN_COLUMNS.covers(reference.columns)
    )


def test_a_write_that_comes_again_has_the_txn_of_the_first() -> None:
    _, table = new_table()
    assert table.last_numbered("w") is None
    first = table.apply_numbered(*small(3))
    assert table.apply_numbered(*small(3)) == first
    assert table.last_numbered("w") == LastWrite(3, first)
    second = table.apply_numbered(*small(8))
    assert second > first
    assert table.apply_numbered(*small(7)) == second, "a later one has happened"
    assert table.apply_numbered(*small(1, "other")) > second
    assert table.last_numbered("w") == LastWrite(8, second)
    assert commits(table) == 3


def test_it_is_one_commit_over_all_tablets_and_other_rows_may_come_again() -> None:
    _, table = new_table()
    txn = table.apply_numbered(*small(1))
    assert {cell.txn for cell in scan(table)} == {txn}
    other = puts((b"q", "f", b"x")).to_arrow()
    assert table.apply_numbered(NumberedWrite("w", 1), other) == txn
    assert (b"q", "f") not in values(table)


def test_what_remembers_is_seen_by_nobody() -> None:
    _, table = new_table()
    table.apply_numbered(*small(1))
    table.flush()
    table.compact()
    assert {cell.row for cell in scan(table, versions=None)} == {b"a", b"z"}
    erase_row(table, writer_row("w"))
    table.truncate()
    assert table.last_numbered("w") is not None


def test_forms_may_change_between_a_write_and_its_repetition() -> None:
    backend, table = new_table()
    first = table.apply_numbered(*small(1))
    assert large(backend, 1) == first
    second = large(backend, 2)
    assert table.apply_numbered(*small(2)) == second
    assert large(backend, 2, "another job") == second
    assert table.last_numbered("w") == LastWrite(2, second)
    table.split(b"b")
    table.compact()
    assert table.apply_numbered(*small(2)) == second
    assert commits(table) == 2
    assert backend.store.coordination.jobs() == (), "the writer remembers, not the job"


def test_a_write_of_nothing_is_remembered() -> None:
    backend, table = new_table()
    txn = table.apply_numbered(NumberedWrite("w", 1), no_mutations())
    assert table.apply_numbered(*small(1)) == txn
    ticket = table.begin_import("job", HOUR_US)
    assert table.commit_import("job", ticket.token, (), NumberedWrite("w", 2)) > txn
    assert reopened(backend).table("t").last_numbered("w") is not None
    assert not scan(table)


@pytest.mark.parametrize("name", FAILPOINTS)
@pytest.mark.parametrize("form", ["small", "large"])
def test_a_crash_anywhere_leaves_it_once_or_not_at_all(name: str, form: str) -> None:
    backend, table = new_table()
    large(backend, 1)
    table.apply_numbered(*small(2))

    def write() -> int:
        if form == "large":
            return large(backend, 3, f"job {len(scan(backend.table('t'), versions=None))}")
        return backend.table("t").apply_numbered(*small(3))

    with armed(name, crash()) as point:
        try:
            write()
        except SimulatedCrash:
            pass
        else:
            assert not point.passes, name
    for _ in range(2):
        backend = reopened(backend)
        backend._settle_imports()
        write()
        assert commits(backend.table("t")) == 3
        assert values(backend.table("t")) == {(b"a", "f"): b"3", (b"z", "g"): b"3"}
        backend.table("t").compact()


def test_a_writer_is_forgotten_after_a_very_long_time_and_not_before() -> None:
    backend, table = new_table()
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    for number in range(5):
        table.apply_numbered(*small(number))
        table.flush()
    table.compact()
    assert remembered(table) == 1, "one cell for each writer, however often it writes"
    clock.advance(KEPT_US - HOUR_US)
    table.apply_numbered(*small(1, "other"))
    table.compact()
    assert table.last_numbered("w") is not None
    clock.advance(3 * HOUR_US)
    table.apply_numbered(*small(2, "other"))
    table.compact()
    assert table.last_numbered("w") is None
    assert table.last_numbered("other") is not None


def test_threads_with_the_same_write_make_it_once() -> None:
    _, table = new_table()
    txns: list[int] = []
    threads = [
        threading.Thread(target=lambda: txns.append(table.apply_numbered(*small(1))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(txns)) == 1
    assert commits(table) == 1


def test_bad_input_is_refused_and_leaves_nothing() -> None:
    backend, table = new_table()
    for wrong in (NumberedWrite("", 1), NumberedWrite("w", -1)):
        with pytest.raises(InvalidArgument):
            table.apply_numbered(wrong, small(1)[1])
    batch = MutationBatch()
    batch.put(b"a", "nope", b"q", b"v")
    narrow = open_backend(memory_world()).create_table("n", Schema([TWO_GROUPS.groups[0]]))
    with pytest.raises(InvalidCells, match="nope"):
        narrow.apply_numbered(NumberedWrite("w", 1), batch.to_arrow())
    assert narrow.last_numbered("w") is None
    with pytest.raises(NotFound, match="no job"):
        table.commit_import("unknown", "i0", (), NumberedWrite("w", 1))
    assert table.last_numbered("w") is None
    backend.drop_table("t")
    with pytest.raises(Exception, match="t"):
        table.apply_numbered(*small(1))


def test_a_full_disk_refuses_and_the_write_may_be_made_again() -> None:
    backend, table = new_table()
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    room, files.capacity_bytes = files.capacity_bytes, 0
    with pytest.raises(OutOfSpace):
        table.apply_numbered(*small(1))
    files.capacity_bytes = room
    assert table.last_numbered("w") is None
    table.apply_numbered(*small(1))
    assert commits(table) == 1


def test_while_an_import_cannot_be_shown_nobody_knows_what_was_written() -> None:
    backend, table = new_table()
    writer = backend.store.user.config_writer._store
    save, edits = writer.save, []

    def fail_second(edit: object, done: Callable[[object], None]) -> None:
        edits.append(edit)
        if len(edits) == 2:
            done(OutOfSpace("no room"))
        else:
            save(edit, done)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "save", fail_second)
        with pytest.raises(OutOfSpace):
            large(backend, 1)
    with pytest.raises(Unavailable, match="cannot be shown"):
        table.apply_numbered(*small(1))
    backend._settle_imports()
    table.apply_numbered(*small(1))
    assert commits(table) == 1


def test_an_attempt_is_forgotten_when_it_is_not_needed() -> None:
    backend, table = new_table()
    ticket = table.begin_import("job", HOUR_US)
    table.forget_import("job", "another attempt")
    assert len(backend.store.coordination.jobs()) == 1
    table.forget_import("job", ticket.token)
    table.forget_import("job", ticket.token)
    assert backend.store.coordination.jobs() == ()
    file = import_file(backend, ticket, [new_cell(b"a")])
    with pytest.raises(NotFound, match="begin it again"):
        table.commit_import("job", ticket.token, [file])
    again = table.begin_import("job", HOUR_US)
    assert again.token != ticket.token
