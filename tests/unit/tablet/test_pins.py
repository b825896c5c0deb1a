"""Pins: what a plan says is the table at its txn, whatever happens to the table afterwards."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stele
from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory import MemoryClock
from stele.env.posix import PosixFileSystem
from stele.errors import AlreadyExists, InvalidArgument, NotFound, SnapshotTooOld
from stele.model.cells import Cell, batch_to_cells
from stele.model.groups import Group
from stele.model.predicates import ScanSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.schema import Schema
from stele.storage.plan_reader import PlanReader
from stele.storage.read_plan import ReadPlan
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    erase_row,
    memory_world,
    open_backend,
    put,
    puts,
    reopened,
    scan,
)

HOUR_US = 3_600_000_000
ALL_VERSIONS = ScanSpec(versions=None)


def new_table(schema: Schema = TWO_GROUPS) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", schema, [b"m"])


def clock_of(backend: EmbeddedBackend) -> MemoryClock:
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    return clock


def read(backend: EmbeddedBackend, plan: ReadPlan, spec: ScanSpec = ALL_VERSIONS) -> list[Cell]:
    reader = PlanReader(backend.store.world.files, plan.location, plan.txn, plan.schema.served)
    return [
        cell
        for tablet in plan.tablets
        for block in reader.read(tablet.references, tablet.rows, spec)
        for cell in batch_to_cells(block.batch)
    ]


def collect(backend: EmbeddedBackend) -> None:
    """Long enough for everything that may go to be gone."""
    for _ in range(2):
        backend.pins.end_expired()
        backend.store.collect_garbage()


def test_memory_and_files_are_in_the_plan() -> None:
    backend, table = new_table()
    put(table, b"a", b"old")
    table.flush()
    put(table, b"a", b"new")
    put(table, b"z", b"tail", family="g")
    plan = table.pin(None, HOUR_US)
    put(table, b"a", b"later")
    assert [(cell.row, cell.value) for cell in read(backend, plan)] == [
        (b"a", b"new"),
        (b"a", b"old"),
        (b"z", b"tail"),
    ]
    assert [tablet.rows for tablet in plan.tablets] == [RowRange(b"", b"m"), RowRange(b"m")]
    assert plan.lease.startswith(f"pin/{table.id}/")
    assert plan.location == "fragments"


def test_a_table_without_a_tail_spills_nothing() -> None:
    backend, table = new_table()
    put(table, b"a")
    table.flush()
    before = backend.store.world.files.list("fragments")
    plan = table.pin(None, HOUR_US)
    assert backend.store.world.files.list("fragments") == before
    assert len(read(backend, plan)) == 1


def test_hidden_families_are_not_in_a_plan() -> None:
    _, table = new_table()
    table.apply(puts((b"a", "f", b"v")), identity=(b"client", 1)).wait()
    plan = table.pin(None, HOUR_US)
    families = {f for t in plan.tablets for ref in t.references for f in ref.families}
    assert families == {"f"}


def test_a_plan_outlives_compactions_splits_joins_regrouping_and_drop() -> None:
    backend, table = new_table()
    for number in range(40):
        put(table, b"k%02d" % number, b"first")
    table.flush()
    put(table, b"k05", b"tail")
    expected = scan(table, versions=None)
    plan = table.pin(None, HOUR_US)
    for number in range(0, 40, 3):
        erase_row(table, b"k%02d" % number)
    table.compact()
    table.split(b"k2")
    collect(backend)
    table.join(b"k2")
    table.compact()
    schema = Schema([Group("all", block_cells=256)], version=2)
    backend.alter_table("t", schema)
    table.compact()
    collect(backend)
    assert read(backend, plan) == expected
    backend.drop_table("t")
    collect(backend)
    assert read(backend, plan) == expected


def test_what_a_plan_alone_holds_goes_when_it_is_released() -> None:
    backend, table = new_table()
    put(table, b"a")
    plan = table.pin(None, HOUR_US)
    names = [ref.file.name for tablet in plan.tablets for ref in tablet.references]
    files = backend.store.world.files
    collect(backend)
    assert all(files.exists(f"fragments/{name}") for name in names)
    table.release_pin(plan.lease)
    table.release_pin(plan.lease)
    collect(backend)
    assert names
    assert not any(files.exists(f"fragments/{name}") for name in names)
    with pytest.raises(InvalidArgument, match="not a pin"):
        table.release_pin("snapshot/x")


def test_a_pin_ends_when_nobody_renews_it() -> None:
    backend, table = new_table()
    put(table, b"a")
    plan = table.pin(None, HOUR_US)
    clock = clock_of(backend)
    clock.advance(HOUR_US - 1)
    assert table.renew_pin(plan.lease, HOUR_US) == clock.now_us() + HOUR_US
    clock.advance(HOUR_US - 1)
    collect(backend)
    assert read(backend, plan)
    clock.advance(1)
    with pytest.raises(NotFound, match="read the table again"):
        table.renew_pin(plan.lease, HOUR_US)
    collect(backend)
    assert backend.store.coordination.leases() == ()
    with pytest.raises(NotFound):
        read(backend, plan)


def test_a_pin_holds_the_horizon_and_outlives_its_owner() -> None:
    backend, table = new_table(Schema([Group("all")], history=0))
    put(table, b"a", b"one")
    plan = table.pin(None, HOUR_US)
    put(table, b"a", b"two")
    table.flush()
    clock_of(backend).advance(HOUR_US // 2)
    backend = reopened(backend)
    table = backend.table("t")
    table.compact()
    collect(backend)
    assert backend.store.coordination.horizon(table.id) <= plan.txn
    assert [cell.value for cell in read(backend, plan)] == [b"one"]
    assert [cell.value for cell in scan(table, at=plan.txn)] == [b"one"]


def test_the_past_is_pinned_as_far_as_history_reaches() -> None:
    backend, table = new_table()
    first = put(table, b"a", b"one")
    put(table, b"a", b"two")
    plan = table.pin(first, HOUR_US, "mine")
    assert [cell.value for cell in read(backend, plan)] == [b"one"]
    with pytest.raises(AlreadyExists, match="mine"):
        table.pin(first, HOUR_US, "mine")
    table.release_pin(plan.lease)
    backend.store.coordination.advance_horizon(table.id, first + 1)
    sentence = f"table 't' cannot be read at {first}: its history begins at {first + 1}; read later"
    with pytest.raises(SnapshotTooOld, match=sentence):
        table.pin(first, HOUR_US)
    table.truncate()
    with pytest.raises(SnapshotTooOld):
        table.pin(first + 1, HOUR_US)
    assert read(backend, table.pin(None, HOUR_US)) == []


def test_a_pin_in_the_near_future_waits_for_it() -> None:
    backend, table = new_table()
    put(table, b"a")
    plan = table.pin(table.durable_txn() + 5, HOUR_US)
    assert put(table, b"a", b"late") > plan.txn
    assert [cell.value for cell in read(backend, plan)] == [b"v"]


@pytest.mark.parametrize("ttl_us", [0, 10, 1 << 60])
def test_a_time_to_live_has_limits(ttl_us: int) -> None:
    _, table = new_table()
    with pytest.raises(InvalidArgument, match="lives for"):
        table.pin(None, ttl_us)


@pytest.mark.parametrize("point", ["after_lease", "after_spill", "after_record"])
def test_a_crash_while_pinning_leaves_nothing_for_ever(point: str) -> None:
    backend, table = new_table()
    put(table, b"a")
    with armed(f"tablet.pin.{point}", crash()), pytest.raises(SimulatedCrash):
        table.pin(None, HOUR_US)
    backend = reopened(backend)
    clock_of(backend).advance(2 * HOUR_US)
    collect(backend)
    assert backend.store.coordination.leases() == ()
    named = {name for config in backend.store._all_configs() for name in config.files()}
    assert set(backend.store.world.files.list("fragments")) <= named
    assert [cell.row for cell in scan(backend.table("t"))] == [b"a"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), st.sampled_from("fgh")),
        st.tuples(st.just("erase"), st.integers(0, 9), st.just("")),
        st.tuples(
            st.sampled_from(["flush", "compact", "split", "join", "pin"]),
            st.integers(0, 9),
            st.just(""),
        ),
    ),
    max_size=25,
)


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_every_plan_reads_what_a_scan_read_at_its_txn(steps: list[tuple[str, int, str]]) -> None:
    backend, table = new_table()
    pinned: list[tuple[ReadPlan, list[Cell]]] = []
    for number, (step, key, family) in enumerate([*steps, ("pin", 0, "")]):
        row = b"k%d" % key
        if step == "put":
            put(table, row, b"%d" % number, family)
        elif step == "erase":
            erase_row(table, row)
        elif step == "flush":
            table.flush()
        elif step == "compact":
            table.compact(RowRange(row))
        elif step == "split":
            table.split(row)
        elif step == "join" and any(t.rows.start == row for t in table.tablets()):
            table.join(row)
        elif step == "pin":
            plan = table.pin(None, HOUR_US)
            pinned.append((plan, scan(table, versions=None, at=plan.txn)))
        collect(backend)
    for plan, expected in pinned:
        assert read(backend, plan) == expected
        assert plan.tablets[0].rows.start == EVERYTHING.start


def test_pins_are_right_while_everything_goes_on(tmp_path: Path) -> None:
    """Writers, flushes, compactions, splits and the collector, all at once."""
    with stele.open(tmp_path) as db:
        table = db.create_table("t", TWO_GROUPS)
        backend: Any = table.core.backend
        stop, failures = threading.Event(), []

        def disturb(number: int) -> None:
            dice = random.Random(number)
            try:
                while not stop.is_set():
                    row = b"k%02d" % dice.randrange(40)
                    step = dice.random()
                    if step < 0.8:
                        table.put(row, {f"{dice.choice('fg')}:q": dice.randbytes(3)})
                    elif step < 0.9:
                        table.delete(row)
                    elif step < 0.94:
                        table.flush()
                    elif step < 0.97:
                        table.compact((row, None))
                    elif step < 0.98:
                        table.split(row)
                    else:
                        backend._backend.store.collect_garbage()
            except Exception as error:  # noqa: BLE001 -- shown below
                failures.append(error)

        threads = [threading.Thread(target=disturb, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        plans = []
        for _ in range(15):
            plan = backend.pin(None, HOUR_US)
            plans.append((plan, table.scan(at=plan.txn, versions=None).to_arrow()))
        stop.set()
        for thread in threads:
            thread.join()
        assert not failures
        for _ in range(2):
            backend._backend.store.collect_garbage()
        for plan, expected in plans:
            files = PosixFileSystem(plan.location)
            reader = PlanReader(files, "", plan.txn, plan.schema.served)
            found = [
                cell
                for part in plan.tablets
                for block in reader.read(part.references, part.rows, ALL_VERSIONS)
                for cell in batch_to_cells(block.batch)
            ]
            assert found == batch_to_cells(expected)
