"""A directory, opened: META first, then the rest (T59–T63, T79–T83, T104–T110, M19–M23)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.store import LOG_DIRECTORY, Store
from stele.env.failpoints import SimulatedCrash, armed, crash, fail
from stele.env.memory import MemoryClock, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    Corruption,
    DirectoryInUse,
    OutOfSpace,
    SteleError,
    StorageFailed,
    TabletNotServing,
    Unavailable,
)
from stele.model.ranges import RowRange
from stele.storage.fragment_options import FragmentOptions
from stele.tablet.changes import RaiseFloor
from stele.tablet.config import ConfigEdit
from stele.tablet.config_store import RootFile
from stele.tablet.flush import Flush
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from stele.tablet.gc import TRASH_DIRECTORY
from stele.tablet.meta_rows import check_tiling
from stele.tablet.meta_table import META0, META1
from tests.unit.tablet.engine_support import (
    BY_HAND,
    TWO_GROUPS,
    block,
    cell,
    erase_row,
    memory_world,
    open_backend,
    put,
    reopened,
    scan,
    values,
)


def filled() -> EmbeddedBackend:
    backend = open_backend(memory_world())
    table = backend.create_table("t", TWO_GROUPS, [b"m"])
    put(table, b"a", b"1")
    put(table, b"z", b"2", "g")
    return backend


def files_of(backend: EmbeddedBackend) -> MemoryFileSystem:
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    return files


EXPECTED = {(b"a", "f"): b"1", (b"z", "g"): b"2"}


def test_t60_an_empty_directory_gets_a_root_and_two_meta_tables() -> None:
    store = Store.open(memory_world(), BY_HAND, "test")
    assert [state.id for state in store.meta.tables()] == [META0, META1]
    assert store.user.tables() == []
    check_tiling(META1, store.meta0.configs(META1))


def test_one_process_owns_a_directory() -> None:
    backend = filled()
    with pytest.raises(DirectoryInUse):
        open_backend(memory_world(files_of(backend).attached()))
    backend.close()
    assert values(open_backend(memory_world(files_of(backend))).table("t")) == EXPECTED


def test_an_open_that_fails_gives_the_lock_back() -> None:
    files = MemoryFileSystem()
    with armed("tablet.root.before_save", crash()), pytest.raises(SimulatedCrash):
        open_backend(memory_world(files))
    assert open_backend(memory_world(files)).tables() == ()


def test_t81_what_was_acknowledged_is_there_after_a_kill_and_after_a_power_failure() -> None:
    backend = filled()
    image = files_of(backend).crash_image()
    assert values(reopened(backend).table("t")) == EXPECTED
    assert values(open_backend(memory_world(image)).table("t")) == EXPECTED


def test_t81_reopening_many_times_changes_nothing_and_leaves_nothing_behind() -> None:
    backend = filled()
    for _ in range(4):
        backend = reopened(backend)
        assert values(backend.table("t")) == EXPECTED
    store = backend.store
    current = {store.meta.log_directory, store.user.log_directory}
    found = {f"{LOG_DIRECTORY}/{name}" for name in store.world.files.list(LOG_DIRECTORY)}
    assert found == current, "old logs are gone"
    assert [record.id for record in store.coordination.sessions()] == [store.session.id]


def test_a_full_disk_says_what_opening_needs_and_trying_again_takes_up_no_more() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", TWO_GROUPS)
    put(table, b"a", SeededRandom(7).bytes(256 << 10))  # nothing makes that smaller
    disk, used = files_of(backend), []
    for _ in range(4):
        disk = disk.restarted()
        disk.capacity_bytes = disk.disk.used_bytes + (192 << 10)
        with pytest.raises(OutOfSpace, match=r"no room to open .* Nothing is lost: make room"):
            open_backend(memory_world(disk))
        used.append(disk.disk.used_bytes)
    assert used[-1] - used[0] < 3 * (64 << 10), "a log directory a try"
    disk = disk.restarted()
    disk.capacity_bytes = 1 << 30
    again = open_backend(memory_world(disk))
    assert [len(cell.value) for cell in scan(again.table("t"))] == [256 << 10]


def test_a_full_disk_is_said_by_the_metastore_in_the_same_way() -> None:
    """The session of the new owner is the first thing that finds no room."""
    backend = filled()
    disk = files_of(backend)
    disk.capacity_bytes = disk.disk.used_bytes
    with suppress(OutOfSpace):  # until the reserve is used up as well
        for number in range(1_000):
            backend.store.coordination.metastore.put(f"/x/{number}", bytes(4_000))
    disk = disk.restarted()
    disk.capacity_bytes = disk.disk.used_bytes
    with pytest.raises(OutOfSpace, match=r"no room to open it: .* Nothing is lost: make room"):
        open_backend(memory_world(disk))
    disk = disk.restarted()
    disk.capacity_bytes = 1 << 30
    assert values(open_backend(memory_world(disk)).table("t")) == EXPECTED


def test_t83_txns_go_on_above_all_that_was_committed_even_if_the_clock_went_back() -> None:
    backend = filled()
    before = scan(backend.table("t"))
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    clock.jump_wall(1_000)
    backend = reopened(backend)
    table = backend.table("t")
    assert scan(table) == before, "txns stay as they were"
    assert put(table, b"b") > max(each.txn for each in before)


def test_history_survives_a_crash() -> None:
    backend = filled()
    before = backend.table("t").durable_txn()
    erase_row(backend.table("t"), b"a")
    backend = reopened(backend)
    assert values(backend.table("t"), at=before) == EXPECTED
    assert values(backend.table("t")) == {(b"z", "g"): b"2"}


# Garbage.


def test_t105_t106_only_what_nobody_refers_to_goes_and_a_round_later() -> None:
    backend = filled()
    table = backend.table("t")
    table.flush()
    table.compact()
    store, files = backend.store, files_of(backend)
    garbage = store.collect_garbage()
    assert garbage
    assert set(files.list(TRASH_DIRECTORY)) == set(garbage)
    assert store.collect_garbage() == []
    assert files.list(TRASH_DIRECTORY) == []
    kept = {name for info in table.tablets() for name in info.details["files"]}
    assert kept <= set(files.list(FRAGMENT_DIRECTORY))
    assert values(table) == EXPECTED
    assert values(reopened(backend).table("t")) == EXPECTED


def test_t106_files_that_a_snapshot_holds_stay() -> None:
    backend = filled()
    table = backend.table("t")
    table.flush()
    table.snapshot("before")
    held = {name for info in table.tablets() for name in info.details["files"]}
    erase_row(table, b"a")
    table.compact()
    assert not held & set(backend.store.collect_garbage())
    table.drop_snapshot("before")
    assert held <= set(backend.store.collect_garbage())


def test_t110_files_that_are_being_written_stay() -> None:
    backend = filled()
    user = backend.store.user
    pending = user.fragments.begin()
    (info,) = pending.write([block(cell(b"a"))], table="t", options=FragmentOptions())
    assert info.name not in backend.store.collect_garbage()
    pending.settle()
    assert info.name in backend.store.collect_garbage()


def test_m19_m20_a_hole_in_meta_stops_the_collector_and_the_next_open() -> None:
    backend = filled()
    table = backend.table("t")
    table.flush()
    lower, _ = backend.store.meta1.configs(table.id)
    backend.store.meta1.overwrite(ConfigEdit(removed=(lower,)))
    with pytest.raises(Corruption, match="gap"):
        backend.store.collect_garbage()
    with pytest.raises(Corruption, match="gap"):
        reopened(backend)


def test_m20_a_table_without_any_row_in_meta_is_a_hole_too() -> None:
    backend = filled()
    table = backend.table("t")
    table.flush()
    backend.store.meta1.overwrite(ConfigEdit(removed=backend.store.meta1.configs(table.id)))
    with pytest.raises(Corruption, match="has no tablet from b''"):
        backend.store.collect_garbage()


def test_m27_an_overlap_in_meta_is_named_when_the_store_is_opened() -> None:
    backend = filled()
    _, upper = backend.store.meta1.configs(backend.table("t").id)
    wider = replace(upper, rows=RowRange(b"c"))
    backend.store.meta1.overwrite(ConfigEdit(written=(wider,)))
    with pytest.raises(Corruption, match="overlap"):
        reopened(backend)


def test_after_a_save_of_unknown_outcome_nothing_is_collected() -> None:
    """META may refer to files that memory does not know of."""
    backend = filled()
    backend.store.meta.failure = StorageFailed("a sync failed")
    with pytest.raises(StorageFailed):
        backend.store.collect_garbage()


def test_a_closed_store_collects_nothing() -> None:
    backend = filled()
    backend.close()
    with pytest.raises(Unavailable):
        backend.store.collect_garbage()


def paused_and_succeeded() -> tuple[EmbeddedBackend, EmbeddedBackend]:
    """An owner that stands still while the file system loses its lock, and the next owner."""
    older = filled()
    older.table("t").flush()
    older.store.lock.release()
    newer = open_backend(memory_world(files_of(older).attached()))
    put(newer.table("t"), b"b", b"newer")
    newer.table("t").flush()
    return older, newer


def test_an_owner_that_lost_the_directory_overwrites_nothing_of_its_successor() -> None:
    """Its logs are sealed and gone, and META holds a greater epoch than its own."""
    older, newer = paused_and_succeeded()
    before = newer.store.meta1.all_configs()
    root = RootFile(files_of(newer)).load()
    with pytest.raises(TabletNotServing):
        put(older.table("t"), b"a", b"too late")
    with pytest.raises(SteleError):
        older.create_table("mine", TWO_GROUPS)
    ended: list[SteleError | None] = []
    for name in (META0, META1):
        Flush.start(older.store.meta, older.store.meta.table(name), ended.append)
    with pytest.raises(TabletNotServing, match="owns the directory"):
        older.store.collect_garbage()
    assert newer.store.meta1.all_configs() == before
    assert RootFile(files_of(newer)).load() == root
    assert values(newer.table("t")) == {**EXPECTED, (b"b", "f"): b"newer"}
    assert values(reopened(newer).table("t")) == {**EXPECTED, (b"b", "f"): b"newer"}


def test_a_root_of_a_greater_epoch_is_not_replaced_by_a_flush_of_meta0() -> None:
    """The one thing of META that both owners would write to: compared before it is replaced."""
    older, newer = paused_and_succeeded()
    root = RootFile(files_of(newer)).load()
    (config,) = older.store.meta.table(META0).layout.tablets
    answers: list[object] = []
    change = RaiseFloor(config.rows, 5)
    older.store.meta.change(older.store.meta.table(META0), change, answers.append)
    (answer,) = answers
    assert isinstance(answer, TabletNotServing)
    assert older.store.meta.config_writer.failure is answer, "it changes nothing any more"
    assert RootFile(files_of(newer)).load() == root


def test_every_owner_has_a_greater_epoch_than_the_one_before() -> None:
    backend = filled()
    epochs = []
    for _ in range(3):
        epochs.append({config.epoch for config in backend.store.meta1.all_configs()})
        assert RootFile(files_of(backend)).load().epoch == backend.store.session.id
        backend = reopened(backend)
    assert all(len(one) == 1 for one in epochs)
    assert sorted(epochs, key=max) == epochs
    assert len({max(one) for one in epochs}) == 3


def test_a_store_that_cannot_say_goodbye_lets_go_of_its_directory() -> None:
    backend = filled()
    store, files = backend.store, files_of(backend)
    with armed("metastore.raft_log.after_sync", fail(StorageFailed)), pytest.raises(SteleError):
        store.close()
    files.lock_exclusive("LOCK").release()
    assert values(reopened(backend).table("t")) == {(b"a", "f"): b"1", (b"z", "g"): b"2"}
