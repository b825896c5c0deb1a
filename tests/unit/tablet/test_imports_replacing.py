"""Imports that replace: the old rows go in the moment in which the new ones come."""

from __future__ import annotations

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.failpoints import SimulatedCrash, armed, crash, declared
from stele.env.memory import MemoryClock
from stele.errors import SnapshotTooOld
from stele.model.numbered_writes import NumberedWrite
from stele.model.predicates import ScanSpec
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    config_of,
    get,
    memory_world,
    open_backend,
    put,
    puts,
    reopened,
    scan,
    values,
)
from tests.unit.tablet.import_support import HOUR_US, import_file, new_cell

FAILPOINTS = sorted(name for name in declared() if name.startswith("tablet.import."))
NEW = {(b"b", "f"): b"imported"}


def new_table() -> tuple[EmbeddedBackend, EmbeddedTable]:
    """Rows in three tablets, in files and in memory."""
    backend = open_backend(memory_world())
    table = backend.create_table("t", TWO_GROUPS, [b"g", b"p"])
    for row in (b"a", b"k"):
        put(table, row)
    table.flush()
    put(table, b"z", family="g")
    return backend, table


def replace_all(
    backend: EmbeddedBackend, job: str = "job", write: NumberedWrite | None = None
) -> int:
    table = backend.table("t")
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    clock.advance(1_000)
    ticket = table.begin_import(job, HOUR_US)
    if ticket.txn is not None:
        return ticket.txn
    file = import_file(backend, ticket, [new_cell(b"b")])
    return table.commit_import(job, ticket.token, [file], write, replaces=True)


def test_only_the_new_rows_are_left() -> None:
    backend, table = new_table()
    before = table.durable_txn()
    txn = replace_all(backend)
    assert values(table) == NEW
    assert get(table, b"a") == []
    assert {config_of(table, row).history_floor for row in (b"a", b"k", b"z")} == {txn}
    with pytest.raises(SnapshotTooOld):
        scan(table, at=before)
    assert values(table, at=txn) == NEW
    put(table, b"q")
    table.compact()
    again = reopened(backend)
    assert values(again.table("t")) == NEW | {(b"q", "f"): b"v"}, "it happens once"


def test_nothing_in_its_place_is_a_truncation() -> None:
    backend, table = new_table()
    ticket = table.begin_import("job", HOUR_US)
    table.commit_import("job", ticket.token, (), replaces=True)
    assert values(table) == {}
    assert values(reopened(backend).table("t")) == {}


def test_what_was_sent_before_is_still_known() -> None:
    backend, table = new_table()
    first = table.apply(puts((b"a", "f", b"v")), identity=(b"client", 1)).wait()
    table.apply_numbered(NumberedWrite("w", 1), puts((b"a", "f", b"w")).to_arrow())
    replace_all(backend, write=NumberedWrite("w", 2))
    assert table.apply(puts((b"a", "f", b"v")), identity=(b"client", 1)).wait() == first
    assert replace_all(backend, "other", NumberedWrite("w", 2)) == table.last_numbered("w").txn  # type: ignore[union-attr]
    assert values(table) == NEW


def test_a_scan_that_began_before_does_not_show_half() -> None:
    backend, table = new_table()
    table.flush()
    stream = table.scan(ScanSpec())
    first = next(stream).column("row").to_pylist()
    replace_all(backend)
    rows = list(first)
    try:
        for batch in stream:
            rows += batch.column("row").to_pylist()
    except SnapshotTooOld:
        return
    assert rows == [b"a", b"k", b"z"], "all of the old, or a refusal"


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_crash_anywhere_leaves_the_old_or_the_new(name: str) -> None:
    backend, table = new_table()
    old = values(table)
    with armed(name, crash()) as point:
        try:
            replace_all(backend)
        except SimulatedCrash:
            pass
        else:
            assert not point.passes, name
    put(backend.table("t"), b"later")  # after the decision, if there was one
    for _ in range(2):
        backend = reopened(backend)
        backend._settle_imports()
        found = values(backend.table("t"))
        later = found.pop((b"later", "f"))
        assert (found in (old, NEW), later) == (True, b"v")
        backend.table("t").compact()
    replace_all(backend)
    found = values(backend.table("t"))
    found.pop((b"later", "f"), None)
    assert found == NEW
