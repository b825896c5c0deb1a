"""Compaction (T34, T67, T71, T98–T102): what may be dropped, and when."""

from __future__ import annotations

import random

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import SteleError
from stele.model.cells import Cell, Op, batch_to_cells
from stele.model.groups import HIDDEN_GROUP, Group
from stele.model.mutations import MutationBatch
from stele.model.schema import Schema
from stele.storage.references import Reference
from stele.tablet.compaction import Compaction, plan_compaction
from stele.tablet.compaction_policy import CompactionLimits
from stele.tablet.config import TabletConfig
from stele.tablet.options import EngineOptions
from stele.tablet.restrictions import group_references
from tests.unit.tablet.engine_support import (
    config_of,
    erase_row,
    memory_world,
    open_backend,
    put,
    scan,
    values,
)
from tests.unit.tablet.import_support import import_cells, new_cell, row_erasure

HOUR_US = 3_600_000_000
NO_HISTORY = Schema([Group("all", block_cells=256)], history=0)
F_AND_G = (Group("f", families=["f"]), Group("g", families=["g"]))
TOGETHER = (Group("both", families=["f", "g"]),)


def new_table(schema: Schema = NO_HISTORY) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", schema)


def pass_time(backend: EmbeddedBackend, duration_us: int = HOUR_US * 2) -> None:
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    clock.advance(duration_us)


def stored(table: EmbeddedTable) -> list[Cell]:
    """Every cell that is in some file, visible or not."""
    store = table._engine.fragments
    return [
        each
        for config in table._state.layout.tablets
        for reference in config.references
        for part in store.open(reference.file).reader.blocks(reference.rows)
        for each in batch_to_cells(part.batch)
    ]


def regroup(backend: EmbeddedBackend, *groups: Group) -> None:
    schema = backend.table("t").schema
    backend.alter_table("t", schema.replace(groups=groups, version=schema.version + 1))


def compact(
    table: EmbeddedTable,
    config: TabletConfig,
    group: str,
    inputs: tuple[Reference, ...],
    horizon: int | None = None,
) -> list[SteleError | None]:
    """How it ended; nothing when none was started."""
    ended: list[SteleError | None] = []
    if horizon is None:
        horizon = table._backend.advance_horizon(table._state)
    job = Compaction(
        table._engine, table._state, config, group, inputs, lambda: horizon, ended.append
    )
    assert job.start() == bool(ended)
    return ended


def test_t34_what_an_erasure_hides_goes_and_the_erasure_with_it() -> None:
    backend, table = new_table()
    put(table, b"a")
    put(table, b"b")
    erase_row(table, b"a")
    pass_time(backend)
    table.compact()
    assert [(each.row, each.op) for each in stored(table)] == [(b"b", Op.PUT)]
    assert len(config_of(table, b"a").references) == 1


def test_t34_above_the_horizon_nothing_is_dropped() -> None:
    backend, table = new_table(Schema([Group("all")], history="1h"))
    before = put(table, b"a")
    erase_row(table, b"a")
    table.compact()
    assert len(stored(table)) == 2
    assert [each.row for each in scan(table, at=before)] == [b"a"]
    pass_time(backend)
    table.compact()
    assert stored(table) == []
    assert config_of(table, b"a").references == ()


def test_t34_an_erasure_stays_unless_all_that_it_may_hide_takes_part() -> None:
    backend, table = new_table()
    put(table, b"a")
    table.flush()
    erase_row(table, b"a")
    table.flush()
    put(table, b"b")
    table.flush()
    pass_time(backend)
    config = config_of(table, b"a")
    assert compact(table, config, "all", config.references[1:]) == [None]
    assert Op.ERASE_ROW in {each.op for each in stored(table)}
    assert values(table) == {(b"b", "f"): b"v"}
    config = config_of(table, b"a")
    assert compact(table, config, "all", config.references) == [None]
    assert [each.op for each in stored(table)] == [Op.PUT]


def test_traces_of_old_requests_go_though_other_files_have_more_of_them() -> None:
    backend, table = new_table()
    for number in (1, 2, 3):
        batch = MutationBatch()
        batch.put(b"a", "f", b"q", b"%d" % number)
        table.apply(batch, identity=(b"client", number)).wait()
        table.flush()
    pass_time(backend)
    config = config_of(table, b"a")
    hidden = group_references(config, table.schema, HIDDEN_GROUP)
    assert len(hidden) == 3
    assert compact(table, config, HIDDEN_GROUP.name, hidden[:2]) == [None]
    config = config_of(table, b"a")
    assert group_references(config, table.schema, HIDDEN_GROUP) == hidden[2:]


def test_a_running_read_holds_the_horizon_back() -> None:
    backend, table = new_table()
    put(table, b"a")
    table.flush()
    before = table.durable_txn()
    hold = backend.reads.begin(table.id, before)
    assert hold is not None
    erase_row(table, b"a")
    pass_time(backend)
    assert backend.reads.use(hold)
    table.compact()
    assert [each.row for each in scan(table, at=before)] == [b"a"]
    backend.reads.end(hold)
    table.compact()
    assert stored(table) == []


def test_versions_beyond_the_groups_history_go() -> None:
    backend, table = new_table(Schema([Group("all", purge="max-history=2")], history=0))
    for value in (b"1", b"2", b"3", b"4"):
        put(table, b"a", value)
        table.flush()
    pass_time(backend)
    table.compact()
    assert [each.value for each in stored(table)] == [b"4", b"3"]


def test_t67_a_compaction_trims_a_file_to_the_tablet_and_the_group() -> None:
    backend, table = new_table()
    batch = MutationBatch()
    for row in (b"a", b"k", b"z"):
        for family in ("f", "g"):
            batch.put(row, family, b"q", b"v")
    table.apply(batch).wait()
    table.flush()
    table.split(b"k")
    regroup(backend, Group("f", families=["f"]), Group("rest"))
    old = {reference.file.name for reference in config_of(table, b"a").references}
    table.compact()
    for row in (b"a", b"k"):
        config = config_of(table, row)
        assert not config.files() & old
        assert all(reference.shows_whole_file for reference in config.references)
    assert len(values(table)) == 6


def test_t71_t67_a_removed_family_is_not_served_and_leaves_with_the_next_compaction() -> None:
    backend, table = new_table(Schema(F_AND_G, history=0))
    put(table, b"a", family="f")
    put(table, b"a", family="g")
    table.flush()
    regroup(backend, Group("f", families=["f"]))
    assert values(table) == {(b"a", "f"): b"v"}
    table.compact()
    assert {each.family for each in stored(table)} == {"f"}


# The note's two examples.


def test_t98_t101_order_after_columns_shifted_to_and_fro() -> None:
    """Example 1: which of two versions is newer never depends on whose file came first."""
    backend, table = new_table(Schema(F_AND_G, history=0))
    put(table, b"a", b"f1", "f")
    table.flush()
    put(table, b"a", b"g1", "g")
    table.flush()
    regroup(backend, *TOGETHER)
    put(table, b"a", b"f2", "f")
    put(table, b"a", b"g2", "g")
    table.flush()
    regroup(backend, *F_AND_G)
    put(table, b"a", b"g3", "g")
    table.flush()
    regroup(backend, *TOGETHER)
    expected = {(b"a", "f"): b"f2", (b"a", "g"): b"g3"}
    assert values(table) == expected
    table.compact()
    assert values(table) == expected


def test_t98_t100_no_erasure_filtered_in_one_group_brings_back_a_cell_of_another() -> None:
    """Example 2: a file shared by groups, an erasure dropped in one, groups united again."""
    backend, table = new_table(Schema(TOGETHER, history=0))
    put(table, b"a", b"old", "f")
    put(table, b"a", b"old", "g")
    table.flush()
    regroup(backend, *F_AND_G)
    erase_row(table, b"a")
    table.flush()
    pass_time(backend)
    config = config_of(table, b"a")
    of_f = tuple(ref for ref in config.references if "f" in ref.columns)
    assert compact(table, config, "f", of_f) == [None]
    assert values(table) == {}
    regroup(backend, *TOGETHER)
    assert values(table) == {}, "the old file must not show its f again"
    pass_time(backend)
    table.compact()
    assert values(table) == {}
    assert stored(table) == []


@pytest.mark.parametrize("seed", range(6))
def test_t98_t102_random_schema_changes_and_compactions_change_nothing_a_reader_sees(
    seed: int,
) -> None:
    dice = random.Random(seed)
    layouts = [
        F_AND_G,
        TOGETHER,
        (Group("rest"),),
        (Group("g", families=["g"]), Group("rest")),
    ]
    backend, table = new_table(Schema(dice.choice(layouts), history=0))
    expected: dict[tuple[bytes, str], bytes] = {}
    for number in range(25):
        pass_time(backend)
        row, family = dice.choice([b"a", b"b", b"c"]), dice.choice(["f", "g"])
        action = dice.randrange(6)
        if action < 2:
            put(table, row, b"%d" % number, family)
            expected[row, family] = b"%d" % number
        elif action == 2:
            erase_row(table, row)
            expected = {key: value for key, value in expected.items() if key[0] != row}
        elif action == 3:
            table.flush()
            config = config_of(table, row)
            group = dice.choice(table.schema.groups)
            columns = table.schema.column_set(group)
            mine = [ref for ref in config.references if columns.covers(ref.columns)]
            chosen = tuple(ref for ref in mine if dice.random() < 0.7)
            if chosen:
                assert compact(table, config, group.name, chosen) == [None]
        elif action == 4:
            regroup(backend, *dice.choice(layouts))
        else:
            table.flush()
        assert values(table) == expected, f"seed {seed}, step {number}"


# Starting, failing, planning.


def test_a_tablet_is_compacted_once_at_a_time_and_not_while_its_layout_changes() -> None:
    _, table = new_table()
    put(table, b"a")
    table.flush()
    config, state = config_of(table, b"a"), table._state
    state.compacting.add(config.id)
    assert compact(table, config, "all", config.references) == []
    state.compacting.clear()
    state.changing_layout = True
    assert compact(table, config, "all", config.references) == []
    state.changing_layout = False
    assert compact(table, config, "all", config.references) == [None]
    assert not state.compacting


def test_a_plan_made_before_the_tablet_changed_is_not_started() -> None:
    backend, table = new_table()
    put(table, b"a")
    put(table, b"z")
    table.flush()
    stale = config_of(table, b"a")
    table.split(b"m")
    assert compact(table, stale, "all", stale.references) == []
    stale = config_of(table, b"a")
    regroup(backend, Group("f", families=["f"]), Group("rest"))
    assert compact(table, stale, "all", stale.references) == []
    assert not table._state.compacting


@pytest.mark.parametrize("call", [Call.OPEN, Call.READ, Call.CREATE, Call.SYNC])
def test_a_compaction_that_fails_ends_and_leaves_everything_as_it_was(call: Call) -> None:
    files = MemoryFileSystem()
    backend = open_backend(memory_world(files))
    table = backend.create_table("t", NO_HISTORY)
    put(table, b"a")
    table.flush()
    put(table, b"b")
    table.flush()
    config = config_of(table, b"a")
    table._engine.fragments.close()
    files._memory_kernel.faults = Faults(Fault(Failure.EIO, 1, kinds={call}))
    (error,) = compact(table, config, "all", config.references, horizon=0)
    assert isinstance(error, SteleError)
    assert config_of(table, b"a") is config
    assert not table._state.compacting
    assert len(values(table)) == 2


def test_the_best_of_all_groups_is_planned() -> None:
    limits = CompactionLimits(sources_min=2)
    backend = open_backend(memory_world(), EngineOptions(background=False, compaction=limits))
    table = backend.create_table("t", Schema(F_AND_G))
    put(table, b"a", family="f")
    table.flush()
    assert plan_compaction(table._engine, table._state, config_of(table, b"a")) is None
    for _ in range(2):
        put(table, b"a", family="g")
        table.flush()
    plan = plan_compaction(table._engine, table._state, config_of(table, b"a"))
    assert plan is not None
    group, references = plan
    assert group == "g"
    assert len(references) == 2


def test_large_files_that_continue_one_another_count_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = CompactionLimits(sources_min=2)
    backend = open_backend(memory_world(), EngineOptions(background=False, compaction=limits))
    table = backend.create_table("t", NO_HISTORY)
    for row in (b"a", b"b", b"c"):
        put(table, row)
        table.flush()

    def planned() -> tuple[str, tuple[Reference, ...]] | None:
        return plan_compaction(table._engine, table._state, config_of(table, b"a"))

    small = planned()
    assert small is not None
    assert len(small[1]) == 3
    monkeypatch.setattr("stele.tablet.compaction.RUN_FILE_BYTES_MIN", 1)
    assert planned() is None
    put(table, b"b")
    table.flush()
    overlapping = planned()
    assert overlapping is not None
    assert len(overlapping[1]) == 4


def test_what_an_import_erased_does_not_come_back_from_memory() -> None:
    """An import is in files at once, while what it hides may be in memory for long."""
    backend, table = new_table()
    put(table, b"a", b"old")
    import_cells(backend, table, "one", [row_erasure(b"a")])
    import_cells(backend, table, "two", [new_cell(b"c")])
    pass_time(backend)
    table._engine.advance_clock().wait()
    config = config_of(table, b"a")
    backend.jobs.compact(table._state, config, "all", config.references)
    assert len(config_of(table, b"a").references) == 1
    assert values(table) == {(b"c", "f"): b"imported"}
    table.flush()
    table.compact()
    assert values(table) == {(b"c", "f"): b"imported"}
    assert [each.row for each in stored(table)] == [b"c"]
