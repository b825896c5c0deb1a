"""The crash model told by hand: the mistakes that lose data on real disks lose it here too."""

from __future__ import annotations

import pytest

from stele.env.disk import Choice, KeepUnsynced, LoseUnsynced
from stele.env.failpoints import SimulatedCrash
from stele.env.faults import FOREVER, Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.env.ports import WritableFile
from stele.env.unsynced import SECTOR_BYTES, UnsyncedFile
from stele.errors import DirectoryInUse, OutOfSpace, StorageFailed, TransientIoError


class Torn:
    """Names survive, and of each file's newest write some sectors."""

    def __init__(self, sectors: int) -> None:
        self._sectors = sectors

    def contents(self, inode: int, file: UnsyncedFile) -> bytes:
        return file.torn(len(file.changes), self._sectors)

    def entries(self, inode: int, changes: int) -> int:
        return (1 << changes) - 1


class NamesOnly(LoseUnsynced):
    """Names survive, unsynced data does not: metadata is often written first."""

    def entries(self, inode: int, changes: int) -> int:
        return (1 << changes) - 1


def fresh(fs: MemoryFileSystem, path: str, data: bytes) -> WritableFile:
    file = fs.create(path)
    file.write(data)
    return file


# Mistakes that lose data.


def test_a_file_without_a_directory_sync_is_gone() -> None:
    fs = MemoryFileSystem()
    fresh(fs, "log", b"entry").sync()
    assert not fs.crash_image().exists("log")
    fs.sync_dir("")
    assert fs.crash_image().read_all("log") == b"entry"


def test_a_name_without_a_file_sync_is_empty() -> None:
    fs = MemoryFileSystem()
    fresh(fs, "log", b"entry")
    fs.sync_dir("")
    assert fs.crash_image().read_all("log") == b""


def test_a_rename_without_a_file_sync_destroys_both_versions() -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("config", b"old")
    fresh(fs, "config.new", b"new")
    fs.rename("config.new", "config")
    assert fs.crash_image().read_all("config") == b"old"
    assert fs.crash_image(NamesOnly()).read_all("config") == b"", "the famous zero-length file"


def test_a_rename_without_a_directory_sync_may_be_undone() -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("config", b"old")
    fresh(fs, "config.new", b"new").sync()
    fs.sync_dir("")
    fs.rename("config.new", "config")
    undone, done = fs.crash_image(), fs.crash_image(KeepUnsynced())
    assert (undone.read_all("config"), undone.list("")) == (b"old", ["config", "config.new"])
    assert (done.read_all("config"), done.list("")) == (b"new", ["config"])


def test_a_deleted_file_may_come_back() -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("a", b"1")
    fs.delete("a")
    assert fs.crash_image().read_all("a") == b"1"
    fs.sync_dir("")
    assert not fs.crash_image().exists("a")


def test_an_unsynced_directory_takes_all_below_it_away() -> None:
    fs = MemoryFileSystem()
    fs.disk.make(1, "d", True, "d")
    fresh(fs, "d/f", b"x").sync()
    fs.sync_dir("d")
    assert fs.crash_image().list("") == []
    fs.mkdir("d")
    assert fs.crash_image().read_all("d/f") == b"x"


def test_a_write_is_torn_at_a_sector() -> None:
    fs = MemoryFileSystem()
    file = fresh(fs, "log", b"a" * 100)
    file.sync()
    fs.sync_dir("")
    file.write(b"b" * 1000)
    kept = {sectors: fs.crash_image(Torn(sectors)).read_all("log") for sectors in range(4)}
    assert [len(data) for data in kept.values()] == [100, SECTOR_BYTES, 2 * SECTOR_BYTES, 1100]
    assert kept[1] == b"a" * 100 + b"b" * (SECTOR_BYTES - 100)


def test_what_a_killed_process_wrote_is_seen_but_not_safe() -> None:
    fs = MemoryFileSystem()
    fresh(fs, "log", b"entry")
    fs.sync_dir("")
    after = fs.restarted()
    assert after.read_all("log") == b"entry"
    assert after.crash_image().read_all("log") == b""
    after.sync_file("log")
    assert after.crash_image().read_all("log") == b"entry"


# What publishes safely.


@pytest.mark.parametrize("choice", [LoseUnsynced(), KeepUnsynced(), NamesOnly()])
def test_published_files_survive(choice: Choice) -> None:
    fs = MemoryFileSystem()
    fs.mkdir("a/b")
    fs.write_atomic("a/b/config", b"new")
    fs.create_exclusive("a/SEALED", b"epoch 7")
    image = fs.crash_image(choice)
    assert image.read_all("a/b/config") == b"new"
    assert image.read_all("a/SEALED") == b"epoch 7"
    assert image.list("a/b") == ["config"]


def test_the_loser_makes_the_winner_durable() -> None:
    fs = MemoryFileSystem()
    fresh(fs, "theirs", b"theirs").sync()
    fs.link("theirs", "SEALED")
    with pytest.raises(Exception, match="SEALED"):
        fs.create_exclusive("SEALED", b"ours")
    assert fs.crash_image().read_all("SEALED") == b"theirs"


# A failing disk.


def test_a_failed_sync_is_final_and_the_bytes_are_lost() -> None:
    faults = Faults(Fault(Failure.EIO, 1, {Call.SYNC}))
    fs = MemoryFileSystem(faults=faults)
    file = fresh(fs, "log", b"entry")
    fs.sync_dir("")
    with pytest.raises(StorageFailed, match="'log'"):
        file.sync()
    for attempt in (file.sync, lambda: file.write(b"x"), lambda: fs.sync_file("log")):
        with pytest.raises(StorageFailed):
            attempt()
    assert (faults.fired, faults.calls[Call.SYNC]) == (1, 1), "nobody tried again"
    file.close()
    assert fs.read_all("log") == b"entry", "still in the page cache"
    next_process = fs.restarted()
    next_process.sync_file("log")
    assert next_process.crash_image().read_all("log") == b"", "the kernel said it was clean"


def test_a_failed_directory_sync_is_final() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.EIO, 1, {Call.SYNC_DIR})))
    fresh(fs, "log", b"entry").sync()
    for _attempt in range(2):
        with pytest.raises(StorageFailed):
            fs.sync_dir("")
    next_process = fs.restarted()
    next_process.sync_dir("")
    assert next_process.exists("log")
    assert not next_process.crash_image().exists("log"), "the kernel said it was clean"


def test_a_full_disk_takes_nothing_until_space_is_freed() -> None:
    fs = MemoryFileSystem(capacity_bytes=1000)
    fs.write_atomic("old", bytes(600))
    file = fresh(fs, "log", b"a" * 300)
    with pytest.raises(OutOfSpace, match="'log'"):
        file.write(b"b" * 200)
    assert (file.position, fs.free_bytes()) == (300, 100)
    assert fs.read_all("log") == b"a" * 300
    fs.delete("old")
    file.write(b"b" * 200)
    file.sync()
    fs.sync_dir("")
    assert fs.crash_image().read_all("log") == b"a" * 300 + b"b" * 200
    fs.capacity_bytes = 500
    assert fs.free_bytes() == 0


def test_what_a_full_disk_took_may_appear_after_a_crash() -> None:
    fs = MemoryFileSystem(capacity_bytes=1000)
    file = fresh(fs, "log", b"a" * 900)
    fs.sync_dir("")
    with pytest.raises(OutOfSpace):
        file.write(b"b" * 200)

    class BeforeTheCut(KeepUnsynced):
        def contents(self, inode: int, file: UnsyncedFile) -> bytes:
            return file.after(2)

    assert fs.crash_image(BeforeTheCut()).read_all("log") == b"a" * 900 + b"b" * 100


def test_publishing_on_a_full_disk_changes_nothing() -> None:
    fs = MemoryFileSystem(capacity_bytes=1000)
    fs.write_atomic("config", b"old")
    for publish in (fs.write_atomic, fs.create_exclusive):
        with pytest.raises(OutOfSpace):
            publish("config", bytes(2000))
    assert fs.list("") == ["config"]
    assert fs.read_all("config") == b"old"


def test_short_calls_are_completed() -> None:
    faults = Faults(Fault(Failure.SHORT, 1, times=FOREVER))
    fs = MemoryFileSystem(faults=faults)
    data = bytes(range(256)) * 20
    file = fs.create("a")
    file.write(data[:7], data[7:3000], data[3000:])
    with fs.open_read("a") as reader:
        assert reader.pread(5, 4000) == data[5:4005]
    assert fs.read_all("a") == data
    assert faults.fired_by_call[Call.WRITE] > 5
    assert faults.fired_by_call[Call.READ] > 5


def test_read_errors_are_transient() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.EIO, 1, {Call.READ})))
    fs.write_atomic("a", b"data")
    with pytest.raises(TransientIoError, match="'a'"):
        fs.read_all("a")
    assert fs.read_all("a") == b"data"


def test_a_reply_may_be_lost_after_the_deed() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.EIO_AFTER, 1, {Call.RENAME})))
    with pytest.raises(StorageFailed):
        fs.write_atomic("a", b"data")
    assert fs.read_all("a") == b"data"


# Processes.


def test_locks_are_between_processes_and_end_with_them() -> None:
    fs = MemoryFileSystem()
    other = fs.attached()
    fs.lock_exclusive("LOCK")
    with pytest.raises(DirectoryInUse):
        other.lock_exclusive("LOCK")
    after = fs.restarted()
    lock = other.lock_exclusive("LOCK")
    with pytest.raises(DirectoryInUse):
        after.lock_exclusive("LOCK")
    lock.release()
    after.lock_exclusive("LOCK").release()
    assert fs.crash_image().free_bytes() > 0


def test_a_killed_process_does_nothing_more() -> None:
    fs = MemoryFileSystem()
    file = fresh(fs, "log", b"entry")
    after = fs.restarted()
    for attempt in (file.sync, lambda: file.write(b"more"), lambda: fs.delete("log")):
        with pytest.raises(SimulatedCrash):
            attempt()
    file.close()
    assert after.read_all("log") == b"entry"
    assert fs.faults.fired == 0
