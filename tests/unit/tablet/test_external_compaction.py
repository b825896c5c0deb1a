"""Compactions elsewhere: whatever happens meanwhile, no read at or above the horizon changes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.failpoints import SimulatedCrash, armed, crash, declared
from stele.env.memory import MemoryClock
from stele.errors import Conflict, InvalidArgument, NotFound
from stele.kernels.compact import CompactionPlan
from stele.model.cells import Cell
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.storage.fragment_format import COLUMNS_LAYOUT
from stele.storage.references import Reference
from stele.tablet.external_compaction import is_settled
from tests.unit.storage.test_references import info
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    config_of,
    erase_row,
    memory_world,
    open_backend,
    put,
    puts,
    reopened,
    scan,
    values,
)
from tests.unit.tablet.external_support import (
    HOUR_US,
    carried_out,
    compact_elsewhere,
    planned,
    published,
)
from tests.unit.tablet.import_support import import_cells, new_cell, row_erasure

FAILPOINTS = sorted(name for name in declared() if name.startswith("tablet.external_compaction."))
ROWS = (b"a", b"k", b"p", b"z")
NO_HISTORY = Schema(
    [Group("f", ["f"], purge="max-history=1"), Group("rest", purge="max-history=1")], history=0
)
TOGETHER = (Group("both", ["f", "g"]), Group("rest"))


def new_table(schema: Schema = TWO_GROUPS) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", schema, [b"m"])


def fill(table: EmbeddedTable) -> list[int]:
    """Some files in each tablet and group, with versions and erasures; the txns."""
    txns = []
    for turn in range(3):
        for row in ROWS:
            txns.append(put(table, row, b"v%d" % turn))
            txns.append(put(table, row, b"w%d" % turn, family="g"))
        txns.append(erase_row(table, ROWS[turn]))
        table.flush()
    return txns


def history(table: EmbeddedTable, txns: list[int]) -> list[list[Cell]]:
    """What every read that is possible sees."""
    return [scan(table, at=txn, versions=None) for txn in txns]


def pass_time(backend: EmbeddedBackend, table: EmbeddedTable) -> None:
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    clock.advance(2 * HOUR_US)
    table._engine.advance_clock().wait()


def collect(backend: EmbeddedBackend) -> None:
    for _ in range(2):
        backend._settle_imports()
        backend.store.collect_garbage()


def sources(table: EmbeddedTable) -> list[int]:
    return [len(config.references) for config in table._state.layout.tablets]


def test_all_files_of_a_tablet_and_group_become_one() -> None:
    backend, table = new_table()
    txns = fill(table)
    before = history(table, txns)
    outcomes = compact_elsewhere(backend, table)
    assert [(outcome.swapped, outcome.lost) for outcome in outcomes] == [(1, ())] * 4
    assert sources(table) == [2, 2]
    collect(backend)
    assert history(table, txns) == before
    again = reopened(backend).table("t")
    assert history(again, txns) == before
    assert backend.store.coordination.leases() == ()


def test_what_nobody_can_read_any_more_is_left_out() -> None:
    backend, table = new_table(NO_HISTORY)
    fill(table)
    now = scan(table)
    pass_time(backend, table)
    compact_elsewhere(backend, table)
    stored = [ref.file.summary for c in table._state.layout.tablets for ref in c.references]
    assert sum(summary.erasures.total for summary in stored) == 0
    assert sum(summary.cells for summary in stored) == len(now)
    assert scan(table, versions=None) == now


def test_nothing_is_dropped_for_what_is_above_the_oldest_cell_in_memory() -> None:
    backend, table = new_table(NO_HISTORY)
    put(table, b"a", b"old")
    import_cells(backend, table, "one", [row_erasure(b"a")])
    import_cells(backend, table, "two", [new_cell(b"c")])
    pass_time(backend, table)
    compact_elsewhere(backend, table)
    table.flush()
    assert values(table) == {(b"c", "f"): b"imported"}


Meanwhile = Callable[[EmbeddedBackend, EmbeddedTable], object]


def put_and_flush(_: EmbeddedBackend, table: EmbeddedTable) -> None:
    put(table, b"a", b"new")
    table.flush()


def erase_and_flush(_: EmbeddedBackend, table: EmbeddedTable) -> None:
    erase_row(table, b"k")
    table.flush()


def split_and_flush(backend: EmbeddedBackend, table: EmbeddedTable) -> None:
    table.split(b"c")
    put_and_flush(backend, table)


def regroup(backend: EmbeddedBackend, table: EmbeddedTable) -> None:
    backend.alter_table("t", alter(table.schema, table.schema.replace(groups=TOGETHER)))


HARMLESS: dict[str, Meanwhile] = {
    "a flush": put_and_flush,
    "an erasure": erase_and_flush,
    "a split": lambda _, table: table.split(b"c"),
    "a join": lambda _, table: table.join(b"m"),
    "a split and a flush": split_and_flush,
    "an import": lambda backend, table: import_cells(backend, table, "i", [new_cell(b"b")]),
    "other groups": regroup,
}


@pytest.mark.parametrize("meanwhile", HARMLESS.values(), ids=HARMLESS.keys())
def test_what_happens_meanwhile_stays(meanwhile: Meanwhile) -> None:
    backend, table = new_table()
    txns = fill(table)
    before = history(table, txns)
    ticket = table.begin_import("job", HOUR_US)
    work = planned(table)
    units = carried_out(backend, ticket, work)
    meanwhile(backend, table)
    now = scan(table, versions=None)
    outcomes = published(table, ticket, units)
    assert all(outcome.swapped for outcome in outcomes)
    assert not any(outcome.lost for outcome in outcomes)
    old = {ref.file.name for unit in units for ref in unit.inputs}
    assert not any(old & config.files() for config in table._state.layout.tablets)
    table.release_pin(work.lease)
    table.commit_import("job", ticket.token, ())
    collect(backend)
    assert scan(table, versions=None) == now
    assert history(table, txns) == before
    table.compact()
    assert history(reopened(backend).table("t"), txns) == before


HARMFUL: dict[str, Meanwhile] = {
    "a compaction": lambda _, table: table.compact(RowRange(b"", b"m")),
    "a truncation": lambda _, table: table.truncate(RowRange(b"", b"m")),
}


@pytest.mark.parametrize("meanwhile", HARMFUL.values(), ids=HARMFUL.keys())
def test_a_tablet_that_lost_inputs_stays_as_it_is(meanwhile: Meanwhile) -> None:
    backend, table = new_table()
    fill(table)
    ticket = table.begin_import("job", HOUR_US)
    work = planned(table)
    units = carried_out(backend, ticket, work)
    meanwhile(backend, table)
    now = scan(table, versions=None)
    outcomes = published(table, ticket, units)
    lost = [bool(outcome.lost) for outcome in outcomes]
    assert lost == [unit.rows.end == b"m" for unit in units]
    assert "no longer shows" in outcomes[0].lost[0]
    table.release_pin(work.lease)
    table.commit_import("job", ticket.token, ())
    collect(backend)
    assert scan(table, versions=None) == now
    names = {file.name for unit in units for each in unit.outputs for file in each.files}
    left = set(backend.store.world.files.list("fragments")) & names
    assert left == {n for c in table._state.layout.tablets for n in c.files()} & names


def test_half_of_a_split_tablet_can_lose() -> None:
    backend, table = new_table()
    fill(table)
    ticket = table.begin_import("job", HOUR_US)
    units = carried_out(backend, ticket, planned(table))
    table.split(b"c")
    table.compact(RowRange(b"", b"c"))
    now = scan(table, versions=None)
    outcomes = published(table, ticket, units)
    assert [(outcome.swapped, len(outcome.lost)) for outcome in outcomes] == [(1, 1)] * 2 + [
        (1, 0)
    ] * 2
    assert scan(table, versions=None) == now


def test_a_compaction_of_our_own_loses_against_one_that_was_shown_first() -> None:
    """And nothing else comes of it."""
    backend, table = new_table()
    txns = fill(table)
    before = history(table, txns)
    config = config_of(table, b"a")
    inputs = tuple(ref for ref in config.references if "f" in ref.columns)
    compact_elsewhere(backend, table)
    files = config_of(table, b"a").files()
    backend.jobs.compact(table._state, config, "a", inputs)
    assert config_of(table, b"a").files() == files
    assert history(table, txns) == before


def test_publishing_twice_is_publishing_once() -> None:
    backend, table = new_table()
    fill(table)
    ticket = table.begin_import("job", HOUR_US)
    units = carried_out(backend, ticket, planned(table))
    first = published(table, ticket, units)
    configs = list(table._state.layout.tablets)
    assert published(table, ticket, units) == first
    assert list(table._state.layout.tablets) == configs


def test_work_comes_in_rounds_and_skips_what_cannot_get_better() -> None:
    backend, table = new_table()
    fill(table)
    first = planned(table, bytes_max=1)
    assert (first.tablets, first.next_row) == (1, b"m")
    assert {unit.rows for unit in first.units} == {RowRange(b"", b"m")}
    second = planned(table, RowRange(b"m"), 1)
    assert (second.tablets, second.next_row) == (1, None)
    backend, table = new_table(NO_HISTORY)
    fill(table)
    pass_time(backend, table)
    compact_elsewhere(backend, table)
    assert planned(table).units == ()
    assert planned(table).tablets == 2


FILE = info(1, txn=5, versions_max=1)
PURGE = CompactionPlan(0, rooted=True, clauses=((0, 50),))
KEEP = CompactionPlan(0, rooted=True)


@pytest.mark.parametrize(
    ("references", "settled"),
    [
        ([Reference(FILE)], True),
        ([Reference(FILE), Reference(info(2, txn=5, versions_max=1))], False),
        ([Reference(FILE, RowRange(b"a"))], False),
        ([Reference(FILE, columns=ColumnSet.of(["a"]))], False),
        ([Reference(info(1, txn=5, versions_max=2))], False),
        ([Reference(info(1, txn=0, versions_max=1), txn=7)], False),
        (
            [
                Reference(info(1, txn=5, versions_max=1, last_row=b"f")),
                Reference(info(2, txn=5, versions_max=1, first_row=b"g")),
            ],
            False,
        ),
    ],
)
def test_what_is_as_good_as_new(references: list[Reference], settled: bool) -> None:
    assert is_settled(tuple(references), ALL_COLUMNS, KEEP, typed=False) is settled
    assert not is_settled(tuple(references), ALL_COLUMNS, KEEP, typed=True), "not in columns"


def test_what_is_too_old_is_worth_a_rewrite() -> None:
    aged = info(1, txn=5, versions_max=1, put_timestamps=(49, 60))
    fresh = info(1, txn=5, versions_max=1, put_timestamps=(50, 60))
    assert not is_settled((Reference(aged),), ALL_COLUMNS, PURGE, typed=False)
    assert is_settled((Reference(fresh),), ALL_COLUMNS, PURGE, typed=False)


def test_typed_groups_become_columns() -> None:
    schema = Schema([Group("all", ["f"])], columns={"f:n": "int64"})
    backend, table = new_table(schema)
    for number in range(20):
        batch = MutationBatch()
        batch.put(b"%02d" % number, "f", b"n", number.to_bytes(8, "big"))
        table.apply(batch).wait()
        if number % 5 == 0:
            table.flush()
    table.flush()
    now = scan(table)
    compact_elsewhere(backend, table)
    (reference,) = config_of(table, b"0").references
    assert reference.file.layout == COLUMNS_LAYOUT
    assert scan(table) == now


def test_only_the_running_attempt_publishes_only_its_own_files() -> None:
    backend, table = new_table()
    fill(table)
    first = table.begin_import("job", HOUR_US)
    units = carried_out(backend, first, planned(table))
    second = table.begin_import("job", HOUR_US)
    with pytest.raises(InvalidArgument, match="another attempt"):
        published(table, first, units)
    with pytest.raises(InvalidArgument, match="not written for this attempt"):
        published(table, second, units)
    table.abort_import("job", second.token)
    with pytest.raises(Conflict, match="aborted"):
        published(table, second, ())
    with pytest.raises(NotFound, match="has no job 'other'"):
        table.publish_compaction("other", second.token, ())
    with pytest.raises(InvalidArgument, match="a pin lives"):
        table.plan_compaction(EVERYTHING, 1, 1)


@pytest.mark.parametrize("name", FAILPOINTS)
@pytest.mark.parametrize("hit", [1, 3])
def test_a_crash_anywhere_loses_nothing(name: str, hit: int) -> None:
    backend, table = new_table()
    txns = fill(table)
    before = history(table, txns)
    with armed(name, crash(), hit=hit):
        try:
            compact_elsewhere(backend, table)
        except SimulatedCrash:
            backend = reopened(backend)
            table = backend.table("t")
    collect(backend)
    assert history(table, txns) == before
    compact_elsewhere(backend, table, "again")
    assert sources(table) == [2, 2]
    assert history(table, txns) == before


@pytest.mark.parametrize("seed", range(2))
def test_any_course_of_things(seed: int) -> None:
    """Many compactions beside everything else; every read stays what it was."""
    dice = random.Random(seed)
    backend, table = new_table()
    expected: dict[int, list[Cell]] = {}
    for turn in range(15):
        ticket = table.begin_import(f"job {turn}", HOUR_US)
        work = planned(table)
        units = carried_out(backend, ticket, work) if dice.random() < 0.6 else []
        for _ in range(dice.randrange(4)):
            row = dice.choice([b"a", b"c", b"k", b"n", b"z"])
            match dice.randrange(6):
                case 0 | 1:
                    expected[put(table, row, b"%d" % turn, dice.choice("fg"))] = []
                case 2:
                    expected[erase_row(table, row)] = []
                case 3:
                    table.flush()
                case 4:
                    table.split(row)
                case 5:
                    table.compact(RowRange(row))
            last = table.durable_txn()
            expected[last] = scan(table, versions=None)
        expected = {
            txn: cells or scan(table, at=txn, versions=None) for txn, cells in expected.items()
        }
        published(table, ticket, units)
        table.release_pin(work.lease)
        table.commit_import(ticket.job, ticket.token, ())
        collect(backend)
        if dice.random() < 0.2:
            backend = reopened(backend)
            table = backend.table("t")
        for txn, cells in expected.items():
            assert scan(table, at=txn, versions=None) == cells
    assert table.apply(puts((b"a", "f", b"end"))).wait() > max(expected)
