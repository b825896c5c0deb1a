"""Recovery from a dead owner's log (T79–T83, T94, T105)."""

from __future__ import annotations

import pytest

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import LimitExceeded
from stele.kernels.block import Block
from stele.model import mutations, validation
from stele.model.cells import Cell, batch_to_cells
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.schema import Schema
from stele.storage import log_parts
from stele.storage.log_seal import is_sealed
from stele.storage.references import FlushMark, Reference
from stele.tablet import recovery
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.families import TABLE_FAMILIES_MAX
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY, FragmentStore
from stele.tablet.recovery import (
    AFTER_FRAGMENTS,
    LostTable,
    Recovered,
    log_directories,
    recover,
)
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    TABLE,
    TWO_GROUPS,
    SavedConfigs,
    cell,
    fragment,
    memory_world,
    new_engine,
    new_store,
    open_backend,
    put,
    puts,
    reopened,
    scan,
    served,
)

OLD_LOG, NEW_LOG = "log/s1", "log/s2"


def dead_engine(files: MemoryFileSystem) -> Engine:
    """An engine that wrote some cells and was killed."""
    engine = new_engine(memory_world(files), SavedConfigs())
    served(engine)
    return engine


def lost(*configs: TabletConfig, schema: Schema = TWO_GROUPS) -> LostTable:
    return LostTable(TABLE, schema, configs)


def recovered(files: MemoryFileSystem, *tables: LostTable) -> tuple[Recovered, FragmentStore]:
    store = new_store(files, "s2.r")
    with store.writing() as pending:
        found = recover(files, pending, tables, log=NEW_LOG, location="here", sealer="test")
    return found, store


def cells_of(store: FragmentStore, config: TabletConfig) -> list[Cell]:
    parts: list[Block] = []
    for reference in config.references:
        parts += store.open(reference.file).reader.blocks(reference.rows)
    return sorted(
        (each for part in parts for each in batch_to_cells(part.batch)), key=lambda c: c.key()
    )


WHOLE = TabletConfig(f"{TABLE}.0", TABLE, EVERYTHING, log=OLD_LOG)


def test_t81_everything_acknowledged_is_found_with_the_txns_it_had() -> None:
    files = MemoryFileSystem()
    engine = dead_engine(files)
    small = engine.apply(TABLE, puts((b"a", "f", b"1"), (b"a", "g", b"2"))).wait()
    batch = MutationBatch()
    for number in range(100):
        batch.put(b"k%03d" % number, "f", b"q", b"3")
    large = engine.apply(TABLE, batch).wait()
    found, store = recovered(files.crash_image(), lost(WHOLE))
    (config,) = found.configs[TABLE]
    cells = cells_of(store, config)
    assert {each.txn for each in cells if each.row == b"a"} == {small}
    assert {each.txn for each in cells if each.row != b"a"} == {large}
    assert len(cells) == found.cells == 102


def test_t83_the_config_names_the_new_log_and_marks_everything_as_flushed() -> None:
    files = MemoryFileSystem()
    txn = dead_engine(files).apply(TABLE, puts((b"a", "f", b"1"))).wait()
    found, _ = recovered(files.crash_image(), lost(WHOLE))
    (config,) = found.configs[TABLE]
    assert (config.log, config.location) == (NEW_LOG, "here")
    assert config.marks == (FlushMark(EVERYTHING, ALL_COLUMNS, found.clock),)
    assert config.clock == found.clock >= txn
    assert config.revision == 1
    assert [sorted(ref.families) for ref in config.references] == [["f"]]


def test_t79_the_log_is_sealed_before_it_is_read() -> None:
    files = MemoryFileSystem()
    dead_engine(files).apply(TABLE, puts((b"a", "f", b"1"))).wait()
    image = files.crash_image()
    recovered(image, lost(WHOLE))
    assert is_sealed(image, OLD_LOG)


def test_t81_what_a_mark_covers_is_not_replayed() -> None:
    """Replaying it would bring back what an erasure, dropped since, has hidden."""
    files = MemoryFileSystem()
    engine = dead_engine(files)
    flushed = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    engine.apply(TABLE, puts((b"b", "f", b"2"))).wait()
    marked = TabletConfig(
        WHOLE.id,
        TABLE,
        EVERYTHING,
        log=OLD_LOG,
        marks=(FlushMark(EVERYTHING, ALL_COLUMNS, flushed),),
    )
    found, store = recovered(files.crash_image(), lost(marked))
    assert [each.row for each in cells_of(store, found.configs[TABLE][0])] == [b"b"]


def test_t82_each_tablet_gets_its_rows_and_only_from_its_own_log() -> None:
    files = MemoryFileSystem()
    dead_engine(files).apply(TABLE, puts((b"a", "f", b"1"), (b"z", "f", b"2"))).wait()
    below = TabletConfig("t.1", TABLE, RowRange(b"", b"m"), log=OLD_LOG)
    above = TabletConfig("t.2", TABLE, RowRange(b"m"), log=None, clock=9)
    found, store = recovered(files.crash_image(), lost(below, above))
    first, second = found.configs[TABLE]
    assert [each.row for each in cells_of(store, first)] == [b"a"]
    assert second.references == (), "it was unloaded in order: its log is not this one"
    assert second.log == NEW_LOG


def test_cells_of_other_tables_are_left_out() -> None:
    files = MemoryFileSystem()
    dead_engine(files).apply(TABLE, puts((b"a", "f", b"1"))).wait()
    other = TabletConfig("u.1", "u", EVERYTHING, log=OLD_LOG)
    found, _ = recovered(files.crash_image(), LostTable("u", TWO_GROUPS, (other,)))
    assert found.cells == 0
    assert found.configs["u"][0].references == ()


def test_the_clock_is_above_everything_any_log_or_config_speaks_of() -> None:
    files = MemoryFileSystem()
    engine = dead_engine(files)
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    last = engine.advance_clock().wait()
    ahead = TabletConfig("t.2", TABLE, RowRange(b"m"), clock=last + 5)
    below = TabletConfig("t.1", TABLE, RowRange(b"", b"m"), log=OLD_LOG)
    assert recovered(files.crash_image(), lost(below))[0].clock >= last
    assert recovered(files.crash_image(), lost(below, ahead))[0].clock == last + 5
    assert recovered(MemoryFileSystem())[0].clock == 0


def test_a_crash_during_recovery_leaves_garbage_and_starts_over() -> None:
    files = MemoryFileSystem()
    dead_engine(files).apply(TABLE, puts((b"a", "f", b"1"))).wait()
    image = files.crash_image()
    with armed(AFTER_FRAGMENTS, crash()), pytest.raises(SimulatedCrash):
        recovered(image, lost(WHOLE))
    again = image.restarted()
    assert len(again.list(FRAGMENT_DIRECTORY)) == 1
    store = new_store(again, "s3.r")
    with store.writing() as pending:
        found = recover(again, pending, [lost(WHOLE)], log="log/s3", sealer="test")
    assert [each.row for each in cells_of(store, found.configs[TABLE][0])] == [b"a"]


def test_a_log_larger_than_memory_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "SPILL_BYTES", 1)
    files = MemoryFileSystem()
    engine = dead_engine(files)
    for part in range(3):
        batch = MutationBatch()
        for number in range(100):
            batch.put(b"k%03d" % number, "f", b"%d" % part, b"v")
        engine.apply(TABLE, batch).wait()
    found, store = recovered(files.crash_image(), lost(WHOLE))
    (config,) = found.configs[TABLE]
    assert len(config.references) == 3
    assert len(cells_of(store, config)) == 300


def test_t65_references_are_cut_along_a_schema_that_was_saved_before_the_crash() -> None:
    """Else a compaction of a new group would not see that an old file has columns of it."""
    files = MemoryFileSystem()
    info = fragment(new_store(files), [cell(b"a"), cell(b"a", "g")])
    config = TabletConfig(WHOLE.id, TABLE, EVERYTHING, references=(Reference(info),))
    regrouped = Schema([Group("g", families=["g"]), Group("rest")])
    found, _ = recovered(files, lost(config, schema=regrouped))
    (adopted,) = found.configs[TABLE]
    assert [reference.families for reference in adopted.references] == [("g",), ("f",)]
    assert ColumnSet.of(["g"]).overlaps(adopted.references[0].columns)


def test_log_directories() -> None:
    assert log_directories([WHOLE, TabletConfig("t", TABLE, EVERYTHING)]) == {OLD_LOG}


@pytest.mark.parametrize("others", [0, 100], ids=["records", "batch"])
@pytest.mark.parametrize("flushes", [False, True])
def test_a_timestamp_that_the_txn_happened_to_have_is_recovered_as_one_version(
    others: int, flushes: bool
) -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    txn = put(table, b"z") + 1
    batch = MutationBatch()
    for number in range(others):
        batch.put(b"row%03d" % number, "f", b"q", b"")
    for timestamp in (None, txn - 1, txn, txn + 1):
        batch.put(b"a", "f", b"q", b"%a" % timestamp, timestamp)
    assert table.apply(batch).wait() == txn
    before = scan(table, versions=None)
    assert [one.value for one in before if one.timestamp == txn and one.row == b"a"] == [b"None"]
    if flushes:
        table.flush()
    again = reopened(backend)
    assert scan(again.table("t"), versions=None) == before


@pytest.mark.parametrize("flushes", [False, True])
def test_a_table_with_all_the_families_it_can_have_is_read_flushed_and_recovered(
    flushes: bool,
) -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    for number in range(TABLE_FAMILIES_MAX):
        table.apply(puts((b"r", f"f{number}", b"")), identity=(b"client", number)).wait()
    batch = MutationBatch()
    batch.erase_row(b"other")
    table.apply(batch).wait()
    if flushes:
        table.flush()
    for _ in range(2):
        table = backend.table("t")
        assert len(scan(table)) == TABLE_FAMILIES_MAX
        for one_more in (puts((b"r", "new", b"")), puts((b"r", "new", b"")).to_arrow()):
            with pytest.raises(LimitExceeded, match="one too many"):
                table.apply(one_more)
        backend = reopened(backend)


def test_the_largest_batch_is_recovered_with_the_trace_of_who_sent_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (mutations, validation, log_parts):
        monkeypatch.setattr(module, "BATCH_CELLS_MAX", 100)
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    batch = puts(*((b"row%03d" % number, "f", b"") for number in range(100)))
    table.apply(batch.to_arrow(), identity=(b"client", 1)).wait()
    assert len(scan(reopened(backend).table("t"))) == 100
