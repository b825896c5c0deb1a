"""The catalog of an embedded store: tables that are made, changed, dropped and copied."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stele.cluster.collector import COLLECTION_PERIOD_US
from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.env.failpoints import SimulatedCrash, armed, crash, fail
from stele.env.memory import MemoryClock, MemoryTasks, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    DirectoryInUse,
    InvalidArgument,
    LimitExceeded,
    OutOfSpace,
    SnapshotTooOld,
    TableNotFound,
    Unavailable,
)
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.tablet.config_store import BEFORE_ROOT_SAVE
from stele.tablet.options import EngineOptions
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    TWO_GROUPS,
    erase_row,
    memory_world,
    open_backend,
    put,
    reopened,
    values,
)


def new_backend() -> EmbeddedBackend:
    return open_backend(memory_world())


# Making and finding.


def test_a_table_is_made_with_its_tablets_and_found_again() -> None:
    backend = new_backend()
    table = backend.create_table("t", TWO_GROUPS, [b"m", b"c", b"m"])
    assert [info.rows.start for info in table.tablets()] == [b"", b"c", b"m"]
    assert [info.details["protected"] for info in table.tablets()] == [False, True, True]
    assert backend.table("t") is table
    assert [info.name for info in backend.tables()] == ["t"]
    again = reopened(backend).table("t")
    assert (again.id, again.name, again.schema) == (table.id, "t", TWO_GROUPS)
    assert [info.rows for info in again.tablets()] == [info.rows for info in table.tablets()]


def test_a_name_is_taken_once() -> None:
    backend = new_backend()
    backend.create_table("t", ONE_GROUP)
    with pytest.raises(AlreadyExists, match="'t'"):
        backend.create_table("t", ONE_GROUP)


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a\n", "é" * 128])
def test_bad_names_are_refused(name: str) -> None:
    backend = new_backend()
    with pytest.raises(InvalidArgument, match="is not a name for a table"):
        backend.create_table(name, ONE_GROUP)
    backend.create_table("t", ONE_GROUP)
    with pytest.raises(InvalidArgument):
        backend.rename_table("t", name)


def test_bad_splits_are_refused_and_leave_no_table() -> None:
    backend = new_backend()
    with pytest.raises(InvalidArgument):
        backend.create_table("t", ONE_GROUP, [b""])
    with pytest.raises(LimitExceeded):
        backend.create_table("t", ONE_GROUP, [b"x" * 100_000])
    assert backend.tables() == ()


def test_a_table_that_is_not_there_is_named_with_its_nearest() -> None:
    backend = new_backend()
    backend.create_table("events", ONE_GROUP)
    with pytest.raises(TableNotFound, match=r"no table 'event'; did you mean 'events'\?"):
        backend.table("event")


def test_a_crash_between_meta_and_catalog_leaves_no_table() -> None:
    backend = new_backend()
    with (
        armed("storage.log.after_sync", crash()),
        pytest.raises(SimulatedCrash),
    ):
        backend.create_table("t", ONE_GROUP)
    again = reopened(backend)
    assert again.tables() == ()
    again.create_table("t", ONE_GROUP)
    again.store.collect_garbage()


# Changing.


def test_t65_t72_altering_regroups_and_survives() -> None:
    backend = new_backend()
    table = backend.create_table("t", TWO_GROUPS)
    put(table, b"a", b"1", "f")
    put(table, b"a", b"2", "g")
    table.flush()
    schema = TWO_GROUPS.replace(groups=[Group("one")], version=2)
    altered = backend.alter_table("t", schema)
    assert altered is table
    assert table.schema == schema
    expected = {(b"a", "f"): b"1", (b"a", "g"): b"2"}
    assert values(table) == expected
    again = reopened(backend).table("t")
    assert again.schema == schema
    assert values(again) == expected


def test_t72_a_schema_made_from_an_older_one_is_a_conflict() -> None:
    backend = new_backend()
    backend.create_table("t", TWO_GROUPS)
    backend.alter_table("t", TWO_GROUPS.replace(version=2))
    with pytest.raises(Conflict, match="version 2, the table is at 2"):
        backend.alter_table("t", TWO_GROUPS.replace(version=2))


def test_renaming() -> None:
    backend = new_backend()
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a")
    backend.create_table("taken", ONE_GROUP)
    with pytest.raises(AlreadyExists):
        backend.rename_table("t", "taken")
    assert backend.rename_table("t", "u").name == "u"
    with pytest.raises(TableNotFound):
        backend.table("t")
    assert len(values(reopened(backend).table("u"))) == 1


# Dropping.


def test_a_dropped_table_comes_back_with_everything() -> None:
    backend = new_backend()
    table = backend.create_table("t", TWO_GROUPS, [b"m"])
    put(table, b"a", b"1")
    put(table, b"z", b"2")
    backend.drop_table("t")
    assert backend.tables() == ()
    assert [info.name for info in backend.tables(dropped=True)] == ["t"]
    with pytest.raises(TableNotFound):
        backend.table("t")
    with pytest.raises(TableNotFound):
        put(table, b"b")
    backend.store.collect_garbage()
    backend.store.collect_garbage()
    backend = reopened(backend)
    back = backend.undrop_table("t")
    assert values(back) == {(b"a", "f"): b"1", (b"z", "f"): b"2"}
    put(back, b"b", b"3")
    assert values(reopened(backend).table("t"))[b"b", "f"] == b"3"


def test_what_is_undropped_is_the_last_table_of_that_name() -> None:
    clock = MemoryClock()
    backend = open_backend(memory_world(clock=clock))
    for value in (b"1", b"2"):
        put(backend.create_table("t", ONE_GROUP), b"a", value)
        clock.advance(1)
        backend.drop_table("t")
    backend.create_table("t", ONE_GROUP)
    with pytest.raises(AlreadyExists):
        backend.undrop_table("t")
    backend.rename_table("t", "u")
    assert values(backend.undrop_table("t")) == {(b"a", "f"): b"2"}
    with pytest.raises(TableNotFound, match="no dropped table"):
        backend.undrop_table("nobody")


def test_the_log_of_a_dropped_table_is_not_replayed_into_it_twice() -> None:
    backend = new_backend()
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a", b"1")
    backend.drop_table("t")
    table = backend.undrop_table("t")
    erase_row(table, b"a")
    backend.drop_table("t")
    backend = reopened(backend)
    assert values(backend.undrop_table("t")) == {}


# Copying.


def test_a_clone_shares_files_and_goes_its_own_way() -> None:
    backend = new_backend()
    table = backend.create_table("t", TWO_GROUPS, [b"m"])
    put(table, b"a", b"1")
    clone = backend.clone_table("t", "copy")
    assert clone.tablets()[0].details["files"] == table.tablets()[0].details["files"]
    put(clone, b"b", b"2")
    erase_row(table, b"a")
    table.compact()
    backend.store.collect_garbage()
    backend.store.collect_garbage()
    assert values(table) == {}
    backend = reopened(backend)
    assert values(backend.table("copy")) == {(b"a", "f"): b"1", (b"b", "f"): b"2"}
    assert values(backend.table("t")) == {}


def test_a_clone_has_no_more_history_than_its_source() -> None:
    clock = MemoryClock()
    backend = open_backend(memory_world(clock=clock))
    table = backend.create_table("t", Schema([Group("all")], history=0))
    before = put(table, b"a", b"1")
    put(table, b"a", b"2")
    clock.advance(10)
    table.compact()
    clone = backend.clone_table("t", "copy")
    with pytest.raises(SnapshotTooOld):
        values(clone, at=before)


# The whole.


def test_status_counts() -> None:
    backend = new_backend()
    table = backend.create_table("t", TWO_GROUPS, [b"m"])
    put(table, b"a")
    told = backend.status()
    assert (told["tables"], told["tablets"], told["error"]) == (1, 2, None)
    assert told["memory_bytes"] > 0
    assert told["log_bytes"] > 0
    assert told["durable_txn"] == table.durable_txn()


def test_after_close_everything_is_refused_in_one_sentence() -> None:
    backend = new_backend()
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a")
    backend.close()
    backend.close()
    calls: list[Callable[[], object]] = [
        lambda: put(table, b"b"),
        lambda: values(table),
        table.flush,
        backend.tables,
        lambda: backend.table("t"),
        lambda: backend.create_table("u", ONE_GROUP),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match="is closed"):
            call()


def test_closing_leaves_nothing_to_replay() -> None:
    backend = new_backend()
    put(backend.create_table("t", ONE_GROUP), b"a")
    backend.close()
    again = open_backend(memory_world(backend.store.world.files))  # type: ignore[arg-type]
    assert values(again.table("t")) == {(b"a", "f"): b"v"}
    assert again.table("t").tablets()[0].fragments == 1


def test_a_real_directory(tmp_path: Path) -> None:
    """Threads, a real disk, and everything in the background."""
    path = str(tmp_path / "data")
    backend = open_embedded(path)
    with pytest.raises(DirectoryInUse):
        open_embedded(path)
    table = backend.create_table("t", TWO_GROUPS, [b"m"])
    for number in range(20):
        put(table, b"row%02d" % number)
    table.flush()
    table.split(b"row10")
    table.compact()
    table.join(b"row10")
    put(table, b"late")
    backend.close()
    again = open_embedded(path, EngineOptions(background=False))
    assert len(values(again.table("t"))) == 21
    again.close()


def test_a_table_that_is_being_dropped_acknowledges_nothing() -> None:
    backend = new_backend()
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a", b"1")
    refused: list[TableNotFound] = []

    def write(_name: str) -> None:
        with pytest.raises(TableNotFound, match="being dropped") as caught:
            put(table, b"b", b"2")
        refused.append(caught.value)

    with armed("tablet.flush.after_fragments", write):
        backend.drop_table("t")
    assert len(refused) == 1
    assert values(backend.undrop_table("t")) == {(b"a", "f"): b"1"}


def test_a_drop_that_fails_leaves_the_table_writable() -> None:
    backend = new_backend()
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a", b"1")
    with armed("tablet.flush.after_fragments", crash()), pytest.raises(SimulatedCrash):
        backend.drop_table("t")
    assert backend.store.user.table(table.id).takes_writes


def test_a_drop_on_a_full_disk_says_what_helps_and_the_table_stays() -> None:
    backend = new_backend()
    table = backend.create_table("t", TWO_GROUPS)
    put(table, b"a", SeededRandom(7).bytes(64 << 10))
    disk = backend.store.world.files
    assert isinstance(disk, MemoryFileSystem)
    disk.capacity_bytes = disk.disk.used_bytes
    with pytest.raises(OutOfSpace, match=r"'t' cannot be dropped now.* Make room on the disk"):
        backend.drop_table("t")
    disk.capacity_bytes = 1 << 30
    assert len(values(table)) == 1
    backend.drop_table("t")
    assert backend.tables() == ()


def test_a_directory_on_a_full_disk_is_named(tmp_path: Path) -> None:
    with (
        armed(BEFORE_ROOT_SAVE, fail(OutOfSpace)),
        pytest.raises(OutOfSpace, match=rf"in '{tmp_path}' cannot be opened: .* Nothing is lost"),
    ):
        open_embedded(str(tmp_path))
    open_embedded(str(tmp_path)).close()


def test_t106_files_nobody_needs_go_by_themselves() -> None:
    world = memory_world()
    backend = open_backend(world, EngineOptions())
    table = backend.create_table("t", ONE_GROUP)
    for number in range(3):
        put(table, b"a", b"%d" % number)
        table.flush()
    table.compact()
    before = len(world.files.list("fragments"))
    tasks = world.tasks
    assert isinstance(tasks, MemoryTasks)
    tasks.advance(COLLECTION_PERIOD_US)
    assert len(world.files.list("fragments")) < before
    assert world.files.list("trash")
    tasks.advance(COLLECTION_PERIOD_US)
    assert world.files.list("trash") == []
    assert values(table) == {(b"a", "f"): b"2"}
    backend.close()
    assert tasks.advance(COLLECTION_PERIOD_US) == 0


@contextmanager
def catalog_held(backend: EmbeddedBackend) -> Iterator[None]:
    """Somebody else changes the catalog, and takes his time."""
    held, over = threading.Event(), threading.Event()

    def change_something() -> None:
        with backend._catalog_changes():
            held.set()
            over.wait(10)

    other = threading.Thread(target=change_something)
    other.start()
    held.wait(10)
    try:
        yield
    finally:
        over.set()
        other.join()


SOON_US = 10_000


def test_nobody_waits_for_his_turn_for_ever() -> None:
    backend = open_backend(memory_world())
    backend.create_table("t", ONE_GROUP)
    changes: list[Callable[[], object]] = [
        lambda: backend.create_table("u", ONE_GROUP, timeout_us=SOON_US),
        lambda: backend.alter_table("t", TWO_GROUPS, timeout_us=SOON_US),
        lambda: backend.rename_table("t", "v", timeout_us=SOON_US),
        lambda: backend.clone_table("t", "v", timeout_us=SOON_US),
        lambda: backend.drop_table("t", timeout_us=SOON_US),
        lambda: backend.undrop_table("t", timeout_us=SOON_US),
    ]
    with catalog_held(backend):
        for change in changes:
            with pytest.raises(DeadlineExceeded, match=r"for 0\.01 s: nothing was changed"):
                change()
    assert [info.name for info in backend.tables()] == ["t"]
    backend.create_table("u", ONE_GROUP, timeout_us=0)
    backend.close()


def test_a_change_that_finds_files_busy_has_changed_nothing_when_it_is_late() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    put(table, b"a", b"1")
    second = ONE_GROUP.replace(groups=TWO_GROUPS.groups, version=ONE_GROUP.version + 1)
    changes: list[Callable[[], object]] = [
        lambda: backend.alter_table("t", second, timeout_us=SOON_US),
        lambda: backend.clone_table("t", "v", timeout_us=SOON_US),
        lambda: backend.drop_table("t", timeout_us=SOON_US),
    ]
    table._state.flushing = True
    for change in changes:
        with pytest.raises(DeadlineExceeded, match="nothing was changed"):
            change()
    table._state.flushing = False
    (info,) = backend.tables()
    assert (info.name, info.schema) == ("t", ONE_GROUP), "neither META nor the catalog"
    put(table, b"b", b"2")
    assert values(reopened(backend).table("t")) == {(b"a", "f"): b"1", (b"b", "f"): b"2"}
