"""What an engine does by itself (T1, T16–T18, T34, T46, T93)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.faults import FOREVER, Call, Failure, Fault, Faults
from stele.env.memory import MemoryClock, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import LimitExceeded, OutOfSpace, StorageFailed, Throttled, Unavailable
from stele.model.limits import ROW_BYTES_MAX
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec
from stele.tablet import memory_pressure
from stele.tablet.changes import SplitTablet
from stele.tablet.compaction_policy import CompactionLimits
from stele.tablet.engine import World
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.maintenance import BUSY_US, COMPACTIONS_MAX, LOOK_AFTER_START_US
from stele.tablet.options import EngineOptions
from stele.tablet.split_policy import SizeLimits
from stele.tablet.table_state import TableState
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    InlineTasks,
    config_of,
    memory_world,
    open_backend,
    put,
    reopened,
    scan,
)

SMALL = EngineOptions(
    flush=FlushLimits(memory_bytes=20_000, budget_bytes=200_000),
    compaction=CompactionLimits(sources_min=4),
    sizes=SizeLimits(split_bytes=1 << 40, join_ratio=0.0),
    log_file_bytes=4096,
)
"""A flush every hundred rows or so, a compaction every four flushes, no splits and joins."""


def new_table(options: EngineOptions, *borders: bytes) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world(), options)
    return backend, backend.create_table("t", ONE_GROUP, borders)


def fill(table: EmbeddedTable, first: int, count: int = 100) -> None:
    batch = MutationBatch()
    for number in range(first, first + count):
        batch.put(b"row%06d" % number, "f", b"q", b"%0200d" % number)
    table.apply(batch).wait()


def fill_up(table: EmbeddedTable, numbers: Iterator[int]) -> None:
    """Go on until it is refused."""
    for number in numbers:
        fill(table, 100 * number)


def flushed(table: EmbeddedTable) -> int:
    return sum(info.fragments for info in table.tablets())


def test_t46_t93_memory_is_flushed_when_there_is_enough_of_it() -> None:
    backend, table = new_table(SMALL)
    put(table, b"a")
    assert flushed(table) == 0
    fill(table, 0)
    put(table, b"b")
    assert flushed(table) > 0
    assert backend.store.user.memory_bytes < 20_000
    assert len(scan(table)) == 102


def test_t93_a_flush_that_a_large_commit_makes_due_writes_it_too() -> None:
    backend, table = new_table(SMALL)
    put(table, b"a")
    fill(table, 0)
    assert backend.store.user.memory_bytes == 0
    assert flushed(table) == 1
    assert len(scan(table)) == 101


def test_t1_t18_t34_many_fragments_are_compacted() -> None:
    _, table = new_table(SMALL)
    for number in range(12):
        fill(table, 100 * number)
        put(table, b"x")
    assert 0 < flushed(table) < 6
    assert len(scan(table)) == 1_201


def test_nothing_happens_by_itself_when_that_is_turned_off() -> None:
    by_hand = EngineOptions(flush=SMALL.flush, background=False)
    _, table = new_table(by_hand)
    for number in range(3):
        fill(table, 100 * number)
    assert flushed(table) == 0


def test_t16_a_large_tablet_splits_at_an_existing_row() -> None:
    options = EngineOptions(flush=SMALL.flush, sizes=SizeLimits(split_bytes=12_000, join_ratio=0.0))
    _, table = new_table(options)
    for number in range(10):
        fill(table, 1_000 * number, count=600)
        put(table, b"x")
    tablets = table.tablets()
    assert len(tablets) > 1
    rows = {each.row for each in scan(table)}
    assert {info.rows.start for info in tablets[1:]} <= rows, "borders are existing rows"
    assert len(rows) == 6_001
    assert not any(info.details["protected"] for info in tablets)


def test_t17_small_neighbours_join_but_not_across_a_border_that_a_user_chose() -> None:
    backend, table = new_table(EngineOptions(background=False), b"m")
    put(table, b"a")
    put(table, b"z")
    table.flush()
    state = backend.store.user.table(table.id)
    assert not backend.maintenance.join_if_due(state), "the border was given at creation"
    lower = config_of(table, b"a")
    assert backend.maintenance._change_layout(state, SplitTablet(lower.id, b"c", "l", "u"))
    assert len(table.tablets()) == 3
    assert backend.maintenance.join_if_due(state)
    assert [info.rows.start for info in table.tablets()] == [b"", b"m"]


def test_one_change_of_a_layout_at_a_time() -> None:
    backend, table = new_table(EngineOptions(background=False))
    state = backend.store.user.table(table.id)
    state.changing_layout = True
    assert not backend.maintenance.join_if_due(state)
    assert not backend.maintenance.flush(state)
    state.changing_layout = False


def test_an_error_in_the_background_is_kept_and_cleared_by_a_success() -> None:
    files = MemoryFileSystem()
    backend = open_backend(memory_world(files), SMALL)
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"b")
    files._memory_kernel.faults = Faults(Fault(Failure.ENOSPC, 1, kinds={Call.CREATE}))
    fill(table, 0)
    failed = backend.maintenance.last_error
    assert isinstance(failed, OutOfSpace)
    assert backend.status()["error"] == str(failed)
    put(table, b"c")
    assert backend.status()["error"] is None
    assert flushed(table) > 0
    backend.close()


def test_a_horizon_that_cannot_be_saved_stops_the_compaction_and_nothing_else() -> None:
    """Looking for work happens on the heels of a flush, which must not suffer from it."""
    backend, table = new_table(SMALL)
    horizon_of = backend.maintenance.horizon_of

    def no_horizon(_state: TableState) -> int:
        raise StorageFailed("the horizon cannot be saved")

    backend.maintenance.horizon_of = no_horizon
    for number in range(6):
        fill(table, 100 * number)
        put(table, b"x")
    assert flushed(table) > 4, "flushed, and never compacted"
    assert isinstance(backend.maintenance.last_error, StorageFailed)
    backend.maintenance.horizon_of = horizon_of
    for number in range(6, 9):
        fill(table, 100 * number)
        put(table, b"x")
    assert backend.status()["error"] is None
    assert len(scan(table)) == 901
    backend.close()


def test_after_stop_nothing_new_is_started() -> None:
    backend, table = new_table(SMALL)
    backend.maintenance.stop()
    fill(table, 0)
    put(table, b"x")
    assert flushed(table) == 0


class HoldingTasks(InlineTasks):
    """Holds jobs whose names begin with a word until they are let go."""

    def __init__(self, clock: MemoryClock, word: str):
        super().__init__(clock)
        self.word = word
        self.held: list[Callable[[], None]] = []

    def spawn(self, name: str, job: Callable[[], None]) -> None:
        if name.startswith(self.word):
            self.held.append(job)
        else:
            job()


def with_held_jobs(word: str) -> tuple[EmbeddedBackend, EmbeddedTable, HoldingTasks]:
    """A table of ten tablets with five files each, before anybody has looked at it."""
    clock = MemoryClock()
    tasks = HoldingTasks(clock, word)
    world = World(MemoryFileSystem(), clock, SeededRandom(1), tasks)
    options = EngineOptions(sizes=SizeLimits(split_bytes=1 << 40, join_ratio=0.0))
    backend = open_backend(world, options)
    table = backend.create_table("t", ONE_GROUP, [b"row%06d" % (10 * n) for n in range(1, 10)])
    return backend, table, tasks


def test_t18_as_many_compactions_run_as_may_and_the_others_wait() -> None:
    backend, table, tasks = with_held_jobs("compact")
    for _ in range(5):
        fill(table, 0)
        table.flush()
    assert len(tasks.held) == COMPACTIONS_MAX
    compacted = 0
    while tasks.held:
        assert len(tasks.held) <= COMPACTIONS_MAX
        tasks.held.pop(0)()
        compacted += 1
    assert compacted == 10
    assert flushed(table) == 10, "each tablet has one file now"
    backend.close()


def test_a_store_that_closes_does_not_wait_for_compactions() -> None:
    backend, table, tasks = with_held_jobs("compact")
    for _ in range(5):
        fill(table, 0)
        table.flush()
    before = flushed(table)
    closing = threading.Thread(target=backend.maintenance.stop)
    closing.start()
    while not backend.maintenance._stopped:
        closing.join(0.001)
    for job in tasks.held:
        job()
    closing.join(60)
    assert not closing.is_alive()
    assert flushed(table) == before
    assert isinstance(backend.maintenance.last_error, Unavailable)
    backend.close()


def test_whoever_reports_a_flush_is_not_held_up_by_looking() -> None:
    backend, table, tasks = with_held_jobs("maintenance")
    for _ in range(5):
        fill(table, 0)
        table.flush()
    assert len(tasks.held) == 1, "one job for all that is due"
    assert flushed(table) == 50
    tasks.held.pop()()
    assert flushed(table) == 10
    backend.close()


def test_a_tablet_of_a_table_that_changes_its_layout_is_looked_at_later() -> None:
    backend, table, tasks = with_held_jobs("maintenance")
    for _ in range(5):
        fill(table, 0)
        table.flush()
    state = backend.store.user.table(table.id)
    state.changing_layout = True
    tasks.held.pop()()
    assert flushed(table) == 50
    state.changing_layout = False
    fill(table, 0, count=1)
    table.flush()
    tasks.held.pop()()
    assert flushed(table) == 10, "not only the one that was flushed"
    backend.close()


def test_t16_t17_what_an_earlier_owner_left_undone_is_looked_at_after_a_load() -> None:
    backend, table = new_table(EngineOptions(background=False))
    for _ in range(5):
        fill(table, 0)
        table.flush()
    assert flushed(table) == 5
    again = reopened(backend, SMALL)
    tasks = again.store.world.tasks
    assert isinstance(tasks, InlineTasks)
    tasks.advance(LOOK_AFTER_START_US)
    assert flushed(again.table("t")) == 1
    again.close()


def test_t18_while_memory_fills_as_it_is_flushed_compactions_wait() -> None:
    backend, table = new_table(EngineOptions(background=False))
    for _ in range(5):
        fill(table, 0)
        table.flush()
    again = reopened(backend, SMALL)
    busy, tasks = again.table("t"), again.store.world.tasks
    assert isinstance(tasks, InlineTasks)
    fill(busy, 0, 40)
    assert 10_000 < again.store.user.memory_bytes < 20_000
    for moment_us in (LOOK_AFTER_START_US, BUSY_US, BUSY_US):
        busy._state.flushed_us = again.store.world.clock.monotonic_us() + moment_us - 1
        tasks.advance(moment_us)
        assert flushed(busy) == 5, "it was flushed a moment ago"
    tasks.advance(BUSY_US)
    assert flushed(busy) == 1, "nobody wrote meanwhile"
    assert again.store.user.memory_bytes > 10_000
    again.close()
    assert tasks.pending() == []


def test_a_look_that_is_due_goes_with_the_store() -> None:
    backend, table = new_table(EngineOptions(background=False))
    for _ in range(5):
        fill(table, 0)
        table.flush()
    again = reopened(backend, SMALL)
    tasks = again.store.world.tasks
    assert isinstance(tasks, InlineTasks)
    state = again.table("t")._state
    state.flushing = True
    tasks.advance(LOOK_AFTER_START_US)
    assert again.maintenance._next_look is not None
    state.flushing = False
    before = len(tasks.pending())
    again.maintenance.stop()
    assert len(tasks.pending()) == before - 1
    again.close()


def test_flushes_wait_while_compactions_are_far_behind() -> None:
    clock = MemoryClock()
    tasks = HoldingTasks(clock, "compact")
    options = EngineOptions(
        flush=SMALL.flush,
        compaction=CompactionLimits(sources_min=4, sources_behind=8),
        sizes=SMALL.sizes,
    )
    backend = open_backend(World(MemoryFileSystem(), clock, SeededRandom(1), tasks), options)
    table = backend.create_table("t", ONE_GROUP)
    number = count()
    with pytest.raises(Throttled):
        fill_up(table, number)
    assert flushed(table) == 9, "no more, although memory is full"
    tasks.held.pop(0)()
    assert backend.store.user.memory_bytes < SMALL.flush.budget_bytes // 2
    fill(table, 100 * next(number))
    while tasks.held:
        tasks.held.pop(0)()
    backend.close()


def test_memory_is_merged_for_those_who_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_pressure, "UNREAD_RUNS_MERGED", 30)
    _, table = new_table(EngineOptions())
    state = table._state

    def runs() -> int:
        return len(state.memory.version.runs())

    state.was_read = False
    for number in range(25):
        fill(table, 100 * number)
    assert runs() == 25, "nobody looked"
    assert table.read_row(b"row000000", CellSpec())[0] is not None
    fill(table, 2_500)
    assert runs() < 5
    assert not state.was_read
    for number in range(26, 60):
        fill(table, 100 * number)
    assert runs() < 30, "too many, even so"
    assert len(scan(table)) == 6_000


NO_FILES = Fault(Failure.ENOSPC, 1, {Call.CREATE}, times=FOREVER)
"""The log, whose files are long, goes on."""


def full_of_memory(*faults: Fault) -> tuple[EmbeddedBackend, EmbeddedTable, MemoryFileSystem]:
    """A store that is out of memory because flushes found the disk full."""
    files = MemoryFileSystem()
    options = EngineOptions(flush=SMALL.flush, sizes=SMALL.sizes)
    backend = open_backend(memory_world(files), options)
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a")
    files._memory_kernel.faults = Faults(NO_FILES)
    with pytest.raises(Throttled):
        fill_up(table, count())
    files._memory_kernel.faults = Faults(NO_FILES, *faults)
    return backend, table, files


def test_t46_a_flush_that_failed_is_tried_again_for_those_who_are_refused() -> None:
    backend, table, files = full_of_memory()
    assert flushed(table) == 0
    files._memory_kernel.faults = Faults()
    with pytest.raises(Throttled):
        fill(table, 0)
    assert flushed(table) > 0
    fill(table, 0)
    backend.close()


def test_t46_a_flush_does_not_wait_for_a_commit_that_was_refused() -> None:
    backend, table, files = full_of_memory(Fault(Failure.ENOSPC, 1, {Call.WRITE}))
    with pytest.raises(OutOfSpace):
        put(table, b"small enough")
    files._memory_kernel.faults = Faults()
    with pytest.raises(Throttled):
        fill(table, 0)
    assert flushed(table) > 0
    backend.close()


def test_t46_a_large_request_makes_small_tables_go() -> None:
    """No table is large enough for a flush, but together they leave no room."""
    options = EngineOptions(flush=FlushLimits(memory_bytes=100_000, budget_bytes=200_000))
    backend = open_backend(memory_world(), options)
    small, large = (backend.create_table(name, ONE_GROUP) for name in ("small", "large"))
    fill(small, 0, count=250)
    assert 0 < backend.store.user.memory_bytes < 100_000
    with pytest.raises(Throttled):
        fill(large, 0, count=600)
    assert flushed(small) == 1
    fill(large, 0, count=600)
    backend.close()


def test_t16_a_tablet_does_not_split_at_a_row_that_meta_cannot_name() -> None:
    options = EngineOptions(
        flush=FlushLimits(memory_bytes=1 << 20, budget_bytes=64 << 20),
        sizes=SizeLimits(split_bytes=2_000, join_ratio=0.0),
    )
    backend, table = new_table(options)
    for number in range(40):
        put(table, b"%02d" % number + b"x" * (ROW_BYTES_MAX - 2), family="f")
    table.flush()
    assert len(table.tablets()) == 1
    assert backend.status()["error"] is None
    with pytest.raises(LimitExceeded, match="no tablet can begin or end at a row of 65535 bytes"):
        table.split(b"20" + b"x" * (ROW_BYTES_MAX - 2))
    put(table, b"short")
    table.flush()
    backend.close()
