"""The engine: commits, conflicts, watermarks, throttling, log files (T20–T25, T37–T47)."""

from __future__ import annotations

import pytest

from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    ClockSkew,
    InvalidCells,
    OutOfSpace,
    StaleRow,
    SteleError,
    StorageFailed,
    TableNotFound,
    TabletNotServing,
    Throttled,
)
from stele.model.mutations import MutationBatch
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.log_seal import seal
from stele.tablet.changes import JoinTablets, SplitTablet
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.config_writer import Answer
from stele.tablet.engine import Engine
from stele.tablet.events import FragmentsReplaced, RowRangeChanged, TabletEventNotice
from stele.tablet.flush import Flush
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions
from tests.unit.tablet.engine_support import (
    TABLE,
    TWO_GROUPS,
    SavedConfigs,
    memory_world,
    new_engine,
    puts,
    served,
)


def an_engine(*borders: bytes) -> Engine:
    engine = new_engine(memory_world(), SavedConfigs())
    served(engine, *borders)
    return engine


def many(count: int, first: int = 0) -> MutationBatch:
    batch = MutationBatch()
    for number in range(first, first + count):
        batch.put(b"row%05d" % number, "f", b"q", b"v")
    return batch


# Commits.


def test_t20_t24_commits_are_numbered_in_order_and_answered_when_durable() -> None:
    engine = an_engine()
    first = engine.apply(TABLE, puts((b"a", "f", b"1")))
    second = engine.apply(TABLE, puts((b"b", "f", b"2")))
    assert first.txn < second.txn == engine.committed_txn
    assert second.wait() == second.txn == engine.durable_txn
    assert first.wait() == first.txn


def test_t37_t42_durable_stays_behind_committed_until_the_log_is_synced() -> None:
    engine = new_engine(memory_world(inline=False), SavedConfigs())
    served(engine)
    before = engine.durable_txn
    pending = engine.apply(TABLE, puts((b"a", "f", b"1")))
    assert engine.committed_txn == pending.txn
    assert engine.durable_txn == before
    pending.wait()
    assert engine.durable_txn == pending.txn


def test_t38_callbacks_come_when_the_commit_is_durable_and_at_once_afterwards() -> None:
    world = memory_world(inline=False)
    engine = new_engine(world, SavedConfigs())
    served(engine)
    told: list[tuple[str, SteleError | None]] = []
    pending = engine.apply(TABLE, puts((b"a", "f", b"1")))
    pending.then(lambda error: told.append(("first", error)))
    assert told == []
    world.tasks.run_ready()  # type: ignore[attr-defined]
    assert told == [("first", None)]
    pending.then(lambda error: told.append(("second", error)))
    assert told[1:] == [("second", None)]


def test_t25_t39_t40_t41_a_commit_waits_for_the_log_and_for_no_config() -> None:
    """The config of a tablet names the log before the first commit, so none depends on a later one:
    no cascade of configs, however many tablets a commit touches or files are on their way."""
    saved = SavedConfigs()
    files = MemoryFileSystem()
    engine = new_engine(memory_world(files), saved)
    state = served(engine, b"g", b"p")
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    saved.held = []
    assert Flush.start(engine, state, lambda _error: None)
    waiting, written = len(saved.held), len(saved.edits)
    txn = engine.apply(TABLE, puts((b"a", "f", b"2"), (b"h", "f", b"2"), (b"z", "f", b"2"))).wait()
    assert engine.durable_txn == txn
    assert (len(saved.held), len(saved.edits)) == (waiting, written), "no config was asked for"
    assert {config.log for config in state.layout.tablets} == {engine.log_directory}


def test_t26_waiting_for_a_commit_makes_everything_at_or_below_it_durable() -> None:
    """``apply`` returns at once; ``wait`` is the call that syncs, up to the txn it returns."""
    engine = new_engine(memory_world(inline=False), SavedConfigs())
    served(engine)
    before = engine.durable_txn
    first, second = (engine.apply(TABLE, puts((row, "f", b"1"))) for row in (b"a", b"b"))
    assert engine.durable_txn == before < first.txn
    assert second.wait() == second.txn == engine.durable_txn
    heard: list[SteleError | None] = []
    first.then(heard.append)
    assert heard == [None], "it was synced along with the later one"


def test_t21_rows_of_tablets_that_are_not_here_are_refused_and_nothing_is_written() -> None:
    engine = new_engine(memory_world(), SavedConfigs())
    config = TabletConfig("t.1", TABLE, RowRange(b"", b"m"), log=engine.log_directory)
    state = engine.add_table(TABLE, "table", TWO_GROUPS, [config])
    with pytest.raises(TabletNotServing, match="row b'z' of table 'table' is not here"):
        engine.apply(TABLE, puts((b"a", "f", b"1"), (b"z", "f", b"1")))
    with pytest.raises(TabletNotServing):
        engine.apply(TABLE, many(100))
    assert state.memory.oldest_txn is None
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()


def test_t20_bad_cells_are_refused_before_anything_happens() -> None:
    engine = an_engine()
    before = engine.committed_txn
    with pytest.raises(InvalidCells, match="at least one"):
        engine.apply(TABLE, MutationBatch())
    with pytest.raises(TableNotFound):
        engine.apply("nobody", puts((b"a", "f", b"1")))
    assert engine.committed_txn == before


def test_t22_a_row_that_changed_since_it_was_read_is_a_conflict() -> None:
    engine = an_engine(b"m")
    read_at = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    engine.apply(TABLE, puts((b"a", "f", b"2")), max_txn=read_at).wait()
    with pytest.raises(StaleRow, match="row b'a'"):
        engine.apply(TABLE, puts((b"a", "f", b"3")), max_txn=read_at)
    with pytest.raises(StaleRow):
        engine.apply(TABLE, puts((b"a", "f", b"3"), (b"z", "f", b"3")), max_txn=read_at)
    engine.apply(TABLE, puts((b"z", "f", b"3")), max_txn=read_at).wait()


def test_t22_a_batch_is_remembered_and_checked_too() -> None:
    engine = an_engine()
    before = engine.durable_txn
    after = engine.apply(TABLE, many(100)).wait()
    with pytest.raises(StaleRow):
        engine.apply(TABLE, puts((b"row00042", "f", b"1")), max_txn=before)
    engine.apply(TABLE, puts((b"row00999", "f", b"1")), max_txn=before).wait()
    engine.apply(TABLE, puts((b"row00042", "f", b"1")), max_txn=after).wait()
    with pytest.raises(StaleRow):
        engine.apply(TABLE, many(100), max_txn=after)


def test_t22_unknown_means_conflict() -> None:
    """What happened before this engine served the table is not known to it."""
    engine = an_engine()
    with pytest.raises(StaleRow):
        engine.apply(TABLE, puts((b"a", "f", b"1")), max_txn=engine.durable_txn - 1)


def test_t22_both_halves_of_a_split_know_what_the_parent_knew() -> None:
    engine = an_engine()
    before = engine.durable_txn
    engine.apply(TABLE, puts((b"a", "f", b"1"), (b"z", "f", b"1"))).wait()
    answers: list[Answer] = []
    change = SplitTablet(f"{TABLE}.0", b"m", "l", "u")
    engine.change(engine.table(TABLE), change, answers.append)
    assert isinstance(answers[0], ConfigEdit)
    for row in (b"a", b"z"):
        with pytest.raises(StaleRow):
            engine.apply(TABLE, puts((row, "f", b"2")), max_txn=before)


def test_t45_the_log_knows_the_txns_of_each_of_its_files() -> None:
    options = EngineOptions(background=False, log_file_bytes=2_000)
    engine = new_engine(memory_world(), SavedConfigs(), options=options)
    served(engine)
    txns = [engine.apply(TABLE, many(5, 5 * number)).wait() for number in range(100)]
    assert len(engine.log.files) > 3
    held = [[t for t in txns if file.txn_min <= t <= file.txn_max] for file in engine.log.files]
    assert [txn for part in held for txn in part] == txns, "each is in one file, in order"


# Memory.


def test_t23_t30_writes_are_refused_while_memory_is_full() -> None:
    limits = FlushLimits(memory_bytes=5_000, budget_bytes=10_000)
    engine = new_engine(
        memory_world(), SavedConfigs(), options=EngineOptions(flush=limits, background=False)
    )
    state = served(engine)

    def write_much() -> None:
        for number in range(1_000):
            engine.apply(TABLE, many(10, 10 * number)).wait()

    with pytest.raises(Throttled, match="the budget of 10000 bytes"):
        write_much()
    assert 0 < engine.memory_bytes <= 10_000
    ended: list[SteleError | None] = []
    assert Flush.start(engine, state, ended.append)
    assert ended == [None]
    engine.apply(TABLE, many(10)).wait()


def test_t23_one_oversized_request_always_passes() -> None:
    limits = FlushLimits(memory_bytes=1_000, budget_bytes=2_000)
    engine = new_engine(
        memory_world(), SavedConfigs(), options=EngineOptions(flush=limits, background=False)
    )
    served(engine)
    engine.apply(TABLE, many(500)).wait()
    assert engine.memory_bytes > 2_000
    with pytest.raises(Throttled):
        engine.apply(TABLE, many(1))


def test_t23_who_waits_with_a_ticket_passes_in_its_turn() -> None:
    limits = FlushLimits(memory_bytes=5_000, budget_bytes=10_000)
    engine = new_engine(
        memory_world(), SavedConfigs(), options=EngineOptions(flush=limits, background=False)
    )
    state = served(engine)
    engine.apply(TABLE, many(10)).wait()
    ticket = engine.admissions.ticket(60_000_000)
    with pytest.raises(Throttled):
        engine.apply(TABLE, many(500), ticket=ticket)
    with pytest.raises(Throttled, match="others wait already"):
        engine.apply(TABLE, many(1))
    assert Flush.start(engine, state, lambda _error: None)
    assert ticket.wait(0)
    engine.apply(TABLE, many(500), ticket=ticket).wait()
    ticket.leave()
    assert engine.memory_bytes > 10_000


def test_a_dead_log_is_heard_by_those_who_wait_for_memory() -> None:
    limits = FlushLimits(memory_bytes=1_000, budget_bytes=2_000)
    engine = new_engine(
        memory_world(), SavedConfigs(), options=EngineOptions(flush=limits, background=False)
    )
    served(engine)
    engine.apply(TABLE, many(500)).wait()
    ticket = engine.admissions.ticket(60_000_000)
    with pytest.raises(Throttled):
        engine.apply(TABLE, many(1), ticket=ticket)
    engine._on_dead(StorageFailed("the disk is gone"))
    assert ticket.wait(0)
    with pytest.raises(StorageFailed, match="the disk is gone"):
        engine.apply(TABLE, many(1), ticket=ticket)


def test_the_count_of_memory_follows_tables_that_come_and_go() -> None:
    engine = an_engine()
    assert engine.memory_bytes == 0
    engine.apply(TABLE, many(100)).wait()
    assert engine.memory_bytes == engine.table(TABLE).memory.size_bytes > 0
    engine.remove_table(TABLE)
    engine.remove_table(TABLE)
    assert engine.memory_bytes == 0
    assert engine.tables() == []


def test_t46_whoever_looks_after_memory_hears_of_every_commit() -> None:
    engine = an_engine()
    grown: list[str] = []
    engine.on_memory_grown = lambda state: grown.append(state.id)
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    assert grown == [TABLE]


# Failing disks.


def test_a_full_disk_refuses_the_commit_and_forgets_it() -> None:
    files = MemoryFileSystem()
    engine = new_engine(memory_world(files), SavedConfigs())
    state = served(engine)
    kept = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    files.capacity_bytes = files.disk.used_bytes
    with pytest.raises(OutOfSpace):
        engine.apply(TABLE, puts((b"b", "f", b"x" * 5_000))).wait()
    runs = state.memory.version.runs()
    assert max(run.txn_max for run in runs) == kept
    files.capacity_bytes = 1 << 30
    engine.apply(TABLE, puts((b"c", "f", b"1"))).wait()
    assert engine.failure is None


def test_after_a_failed_sync_nothing_is_taken_any_more() -> None:
    files = MemoryFileSystem()
    engine = new_engine(memory_world(files), SavedConfigs())
    served(engine)
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    files._memory_kernel.faults = Faults(Fault(Failure.EIO, 1, kinds={Call.SYNC}))
    with pytest.raises(StorageFailed):
        engine.apply(TABLE, puts((b"b", "f", b"1"))).wait()
    assert isinstance(engine.failure, StorageFailed)
    with pytest.raises(StorageFailed):
        engine.apply(TABLE, puts((b"c", "f", b"1")))


def test_t79_an_engine_whose_log_was_sealed_acknowledges_nothing_more() -> None:
    files = MemoryFileSystem()
    engine = new_engine(memory_world(files), SavedConfigs())
    served(engine)
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    seal(files, engine.log_directory, "the next owner")
    with pytest.raises(TabletNotServing, match="is sealed"):
        engine.apply(TABLE, puts((b"b", "f", b"1"))).wait()


# Time.


def test_txns_never_go_back_with_the_clock() -> None:
    clock = MemoryClock()
    engine = new_engine(memory_world(clock=clock), SavedConfigs())
    served(engine)
    before = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    clock.jump_wall(1_000)
    assert engine.apply(TABLE, puts((b"a", "f", b"2"))).wait() == before + 1


def test_an_engine_starts_above_what_earlier_owners_have_committed() -> None:
    clock = MemoryClock(1_000_000)
    engine = new_engine(memory_world(clock=clock), SavedConfigs(), start_txn=5_000_000)
    served(engine)
    assert engine.apply(TABLE, puts((b"a", "f", b"1"))).wait() > 5_000_000


def test_advancing_the_clock_makes_the_present_readable() -> None:
    clock = MemoryClock()
    engine = new_engine(memory_world(clock=clock), SavedConfigs())
    clock.advance(1_000_000)
    assert engine.advance_clock().wait() == engine.durable_txn >= clock.now_us()


def test_a_txn_in_the_near_future_is_reached_and_one_far_ahead_refused() -> None:
    engine = an_engine()
    target = engine.durable_txn + 1_000
    engine.reach(target)
    assert engine.durable_txn > target
    assert engine.apply(TABLE, puts((b"a", "f", b"1"))).txn > target
    with pytest.raises(ClockSkew):
        engine.reach(engine.durable_txn + 3_600_000_000_000)


# Layouts.


def test_t7_a_reader_takes_its_view_while_somebody_holds_the_lock() -> None:
    """Map and graph are versions that are exchanged: who reads waits for nobody who changes."""
    engine = an_engine(b"m")
    state = engine.table(TABLE)
    with engine.lock:
        view = state.view()
        assert view.layout.tablets.find(b"a") is not view.layout.tablets.find(b"z")
        assert view.layout.graph.tablets_of("no file") == ()
    engine.change(state, JoinTablets(f"{TABLE}.0", f"{TABLE}.1", "j"), lambda _answer: None)
    assert len(state.layout.tablets) == 1
    assert len(view.layout.tablets) == 2


def test_t9_t12_listeners_hear_of_splits_and_flushes_without_the_lock() -> None:
    engine = an_engine()
    state = engine.table(TABLE)
    heard: list[TabletEventNotice] = []

    class Listener:
        def on_tablet_event(self, event: TabletEventNotice) -> None:
            assert not engine.lock.locked()
            heard.append(event)

    listener = Listener()
    engine.events.add(listener)
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    Flush.start(engine, state, lambda _error: None)
    engine.change(state, SplitTablet(f"{TABLE}.0", b"m", "l", "u"), lambda _answer: None)
    engine.events.remove(listener)
    added, *ranges = heard
    assert isinstance(added, FragmentsReplaced)
    assert added.removed == ()
    assert RowRangeChanged(f"{TABLE}.0", RowRange(b"", b"m")) in ranges
    assert RowRangeChanged("u", RowRange(b"m")) in ranges


def test_a_table_is_served_once() -> None:
    engine = an_engine()
    with pytest.raises(AssertionError, match="is served already"):
        served(engine)
    assert [state.id for state in engine.tables()] == [TABLE]
    assert next(iter(engine.table(TABLE).layout.tablets)).rows == EVERYTHING
