"""Groups on their way to the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption
from stele.metastore.events import (
    Group,
    Persisted,
    SpaceShort,
    StateReplaced,
    StorageLost,
)
from stele.metastore.log_worker import LogWorker
from stele.metastore.raft_log import RaftLog, RaftLogOptions
from stele.metastore.raft_log_format import LogIdentity
from stele.metastore.snapshots import Installation
from stele.raft import Entry, EntryKind, HardState, Membership, Snapshot, StoredState

OPTIONS = RaftLogOptions(segment_bytes=10_000, reserve_bytes=2_000)


def group(number: int, size: int = 1, *, sync: bool = True) -> Group:
    entry = Entry(1, number, EntryKind.DATA, bytes(size))
    return Group(number, None, (entry,), HardState(1, 0, 0), needs_sync=sync)


class Installed:
    """Remembers what became of images, or fails to install one."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.fails = False

    def stage(self, snapshot: Snapshot) -> Installation:
        if self.fails:
            raise Corruption("a staged image is damaged")
        self.steps.append(("staged", snapshot.index))
        return cast("Installation", Image(self.steps, snapshot.index))

    def adopt(self, installation: Installation) -> StateReplaced:
        installation.adopt()
        return StateReplaced(self.steps[-1][1], ())


@dataclass
class Image:
    """One of them."""

    steps: list[tuple[str, int]]
    index: int

    def adopt(self) -> None:
        self.steps.append(("adopted", self.index))

    def retire(self) -> None:
        self.steps.append(("retired", self.index))


def make(fs: MemoryFileSystem) -> tuple[LogWorker, Installed]:
    identity = LogIdentity("c", 1)
    log = RaftLog.create(fs, "log", SeededRandom(1), identity, StoredState(), OPTIONS)
    installed = Installed()
    return LogWorker(1, log, installed), installed


def durable(fs: MemoryFileSystem) -> StoredState:
    return RaftLog.open(fs.crash_image(), "log", SeededRandom(2), OPTIONS).stored


def test_what_piles_up_during_a_job_goes_out_with_the_next() -> None:
    fs = MemoryFileSystem()
    worker, _ = make(fs)
    worker.add([group(1)])
    first = worker.next_job()
    assert first is not None
    worker.add([group(2)])
    worker.add([group(3)])
    assert worker.next_job() is None
    first.run()
    assert worker.finish(first) == [Persisted(1)]
    second = worker.next_job()
    assert second is not None
    assert [g.number for g in second.groups] == [2, 3]
    second.run()
    assert worker.finish(second) == [Persisted(3)]
    assert worker.is_idle
    assert len(durable(fs).entries) == 3


def test_a_group_that_needs_no_sync_waits_for_one_that_does() -> None:
    worker, _ = make(MemoryFileSystem())
    worker.add([group(1, sync=False)])
    assert worker.next_job() is None
    assert worker.is_idle
    worker.add([group(2)])
    job = worker.next_job()
    assert job is not None
    assert [g.number for g in job.groups] == [1, 2]


def test_written_is_not_durable() -> None:
    fs = MemoryFileSystem()
    worker, _ = make(fs)
    worker.add([group(1)])
    job = worker.next_job()
    assert job is not None
    job.write()
    assert durable(fs).entries == ()
    job.sync()
    assert len(durable(fs).entries) == 1


def test_a_failed_sync_is_told_and_nothing_else() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.EIO, call=3, kinds={Call.SYNC})))
    worker, _ = make(fs)
    worker.add([group(1)])
    job = worker.next_job()
    assert job is not None
    job.run()
    (event,) = worker.finish(job)
    assert isinstance(event, StorageLost)


def test_a_failed_write_is_told_too() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.EIO, call=3, kinds={Call.WRITE})))
    worker, _ = make(fs)
    worker.add([group(1)])
    job = worker.next_job()
    assert job is not None
    job.run()
    (event,) = worker.finish(job)
    assert isinstance(event, StorageLost)


def test_a_full_disk_is_reported_once_and_tried_again_after_a_tick() -> None:
    fs = MemoryFileSystem()
    worker, _ = make(fs)
    fs.capacity_bytes = fs.disk.used_bytes
    worker.add([group(1, size=5_000)])
    job = worker.next_job()
    assert job is not None
    job.run()
    assert worker.finish(job) == [SpaceShort(1)]
    worker.add([group(2)])
    assert worker.next_job() is None
    worker.tick()
    again = worker.next_job()
    assert again is not None
    assert [g.number for g in again.groups] == [1, 2]
    again.run()
    assert worker.finish(again) == []
    fs.capacity_bytes = 1 << 30
    worker.tick()
    last = worker.next_job()
    assert last is not None
    last.run()
    assert worker.finish(last) == [Persisted(2)]
    assert len(durable(fs).entries) == 2


def test_the_reserve_lets_the_group_through_and_the_alarm_is_raised() -> None:
    fs = MemoryFileSystem()
    worker, _ = make(fs)
    fs.capacity_bytes = fs.disk.used_bytes
    worker.add([group(1)])
    job = worker.next_job()
    assert job is not None
    job.run()
    assert worker.finish(job) == [Persisted(1), SpaceShort(1)]


def test_an_image_is_installed_after_its_group_is_durable_and_before_that_is_told() -> None:
    fs = MemoryFileSystem()
    worker, installed = make(fs)
    image = Snapshot(50, 2, Membership((1,)))
    worker.add([group(1), Group(2, image, (), HardState(2, 0, 50), needs_sync=True)])
    job = worker.next_job()
    assert job is not None
    assert job.has_slow_work
    job.write()
    job.sync()
    assert installed.steps == []
    assert durable(fs).snapshot == image
    job.do_slow_work()
    assert installed.steps == [("staged", 50)]
    assert worker.finish(job) == [StateReplaced(50, ()), Persisted(2)]
    assert installed.steps == [("staged", 50), ("adopted", 50)]


def test_what_an_image_replaced_is_removed_by_a_job_of_its_own() -> None:
    worker, installed = make(MemoryFileSystem())
    for number, index in ((1, 50), (2, 60)):
        image = Snapshot(index, 2, Membership((1,)))
        worker.add([Group(number, image, (), HardState(2, 0, index), needs_sync=True)])
    job = worker.next_job()
    assert job is not None
    job.run()
    assert worker.finish(job) == [StateReplaced(60, ()), Persisted(2)]
    tidying = worker.next_job()
    assert tidying is not None
    tidying.run()
    assert worker.finish(tidying) == []
    assert worker.is_idle
    assert installed.steps == [("staged", 60), ("adopted", 60), ("retired", 60)]


def test_an_image_that_cannot_be_installed_stops_the_node() -> None:
    worker, installed = make(MemoryFileSystem())
    installed.fails = True
    worker.add([Group(2, Snapshot(50, 2, Membership((1,))), (), None, needs_sync=True)])
    job = worker.next_job()
    assert job is not None
    job.run()
    (event,) = worker.finish(job)
    assert isinstance(event, StorageLost)
    assert "could not be installed" in event.reason


def test_a_cut_is_worth_a_sync_and_deletes_segments() -> None:
    fs = MemoryFileSystem()
    worker, _ = make(fs)
    for number in range(1, 12):
        worker.add([group(number, size=4_000)])
        job = worker.next_job()
        assert job is not None
        job.run()
        worker.finish(job)
    before = len(fs.list("log"))
    worker.add([], Snapshot(10, 1, Membership((1,))))
    job = worker.next_job()
    assert job is not None
    job.run()
    assert worker.finish(job) == []
    assert len(fs.list("log")) < before
    assert durable(fs).snapshot.index == 10


def test_the_reserve_is_taken_again_when_there_is_room_and_the_next_alarm_is_news() -> None:
    fs = MemoryFileSystem()
    worker, _ = make(fs)
    for number in (1, 2):
        fs.capacity_bytes = fs.disk.used_bytes
        worker.add([group(number)])
        job = worker.next_job()
        assert job is not None
        job.run()
        assert worker.finish(job) == [Persisted(number), SpaceShort(1)]
        assert "reserve" not in fs.list("log")
        assert worker.next_job() is None
        fs.capacity_bytes = 1 << 30
        worker.tick()
        job = worker.next_job()
        assert job is not None
        assert job.groups == []
        job.run()
        assert worker.finish(job) == []
        assert "reserve" in fs.list("log")
        worker.tick()
        assert worker.next_job() is None
