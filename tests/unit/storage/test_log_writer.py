"""The writer: its bytes, its order of syncs, and what it does when the disk does not."""

from __future__ import annotations

import pytest

from stele.env.failpoints import SimulatedCrash, armed, counting, crash, declared
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import AlreadyExists, InvalidArgument, OutOfSpace, StorageFailed
from stele.storage.log_format import ENTRY_HEADER_BYTES, FILE_HEADER_BYTES
from stele.storage.log_parts import clock_commit, release_commit
from stele.storage.log_reader import LogReader
from stele.storage.log_writer import (
    AFTER_CREATE,
    AFTER_DIRECTORY_SYNC,
    AFTER_HEADER_SYNC,
    AFTER_HEADER_WRITE,
    AFTER_RESERVE,
    AFTER_SYNC,
    AFTER_TRIM,
    AFTER_WRITE,
    RESERVE_BYTES_MIN,
    LogWriter,
)
from tests.unit.storage.log_support import DIRECTORY, new_writer, read, rows


def entries(fs: MemoryFileSystem) -> list[tuple[str, int, int, bool]]:
    """File, number of commits, largest txn and the flag of each entry."""
    return [
        (entry.file[-5], entry.header.commits, entry.header.txn_max, entry.header.is_last)
        for entry in LogReader(fs, DIRECTORY).entries()
    ]


def test_a_group_is_one_entry_with_one_sync() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs)
    writer.write([rows(1)])
    before = fs.faults.calls.copy()
    done = writer.write([rows(2), rows(3), clock_commit(4)])
    assert fs.faults.calls - before == {Call.WRITE: 1, Call.SYNC: 1}
    assert entries(fs) == [("1", 1, 1, False), ("1", 3, 4, False)]
    assert (done.txns, done.sequence, done.closed) == ((2, 4), 1, False)
    assert done.file_bytes == len(fs.read_all(f"{DIRECTORY}/00000001.log"))
    assert writer.clock == 4


def test_what_was_written_survives_a_power_failure() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1024)
    for txn in range(1, 60):
        writer.write([rows(txn, count=3)])
        assert read(fs.crash_image()) == list(range(1, txn + 1))


def test_the_entry_that_takes_a_file_over_its_size_closes_it() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1024)
    done = [writer.write([rows(txn, value=bytes(300))]) for txn in range(1, 7)]
    assert [each.sequence for each in done] == [1, 1, 1, 2, 2, 2]
    assert [each.closed for each in done] == [False, False, True] * 2
    assert [each[3] for each in entries(fs)] == [False, False, True] * 2


def test_an_entry_larger_than_a_file_is_a_file() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1024)
    assert writer.write([rows(1, value=bytes(5_000))]).closed
    assert writer.write([rows(2)]).sequence == 2
    assert read(fs) == [1, 2]


def test_closing_ends_the_log() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs)
    writer.write([rows(1)])
    done = writer.close()
    assert done is not None
    assert done.closed
    assert entries(fs) == [("1", 1, 1, False), ("1", 0, 1, True)]
    assert writer.close() is None


def test_closing_a_log_without_an_open_file_writes_nothing() -> None:
    fs = MemoryFileSystem()
    assert new_writer(fs).close() is None
    assert fs.list(DIRECTORY) == []


def test_a_directory_is_never_continued() -> None:
    fs = MemoryFileSystem()
    new_writer(fs).write([rows(1)])
    with pytest.raises(AlreadyExists, match=r"not new: it holds '00000001\.log'"):
        new_writer(fs)


def test_a_sealed_directory_is_not_started() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    fs.create_exclusive(f"{DIRECTORY}/SEALED")
    with pytest.raises(AlreadyExists, match="SEALED"):
        new_writer(fs)


def test_an_empty_directory_may_be_started_by_its_owner() -> None:
    fs = MemoryFileSystem()
    new_writer(fs)
    new_writer(fs).write([rows(1)])
    assert read(fs) == [1]


def test_txns_rise_above_the_clock() -> None:
    writer = new_writer(MemoryFileSystem(), clock=10)
    with pytest.raises(AssertionError, match="txns rise"):
        writer.write([rows(10)])


def test_a_size_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="roll_bytes is 10"):
        LogWriter(MemoryFileSystem(), DIRECTORY, "s1", SeededRandom(1), roll_bytes=10)


@pytest.mark.parametrize("write", range(1, 6))
def test_a_full_disk_refuses_one_entry_and_takes_the_next(write: int) -> None:
    faults = Faults(Fault(Failure.ENOSPC, write, kinds={Call.WRITE}))
    fs = MemoryFileSystem(faults=faults)
    writer = new_writer(fs, roll_bytes=1024)
    kept = []
    for txn in range(1, 7):
        try:
            writer.write([rows(txn, value=bytes(300))])
            kept.append(txn)
        except OutOfSpace:
            assert read(fs) == kept
    assert faults.fired == 1
    assert len(kept) == 5
    assert read(fs.crash_image()) == kept


def test_a_full_disk_when_a_file_is_made() -> None:
    faults = Faults(Fault(Failure.ENOSPC, 1, kinds={Call.CREATE}))
    fs = MemoryFileSystem(faults=faults)
    writer = new_writer(fs)
    with pytest.raises(OutOfSpace):
        writer.write([rows(1)])
    writer.write([rows(2)])
    assert read(fs) == [2]


@pytest.mark.parametrize("call", [Call.CREATE, Call.OPEN])  # the file, or its directory
def test_without_descriptors_an_entry_is_refused_and_the_next_is_taken(call: Call) -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1024)
    writer.write([rows(1, value=bytes(1024))])
    fs.faults._plan = (Fault(Failure.EMFILE, 1, kinds={call}, times=2),)
    fs.faults._seen = [0]
    for txn in (2, 3):
        with pytest.raises(OutOfSpace, match="Too many open files"):
            writer.write([rows(txn)])
        assert read(fs.crash_image()) == [1]
    writer.write([rows(4)])
    assert fs.faults.fired == 2
    assert read(fs) == read(fs.crash_image()) == [1, 4]
    writer.close()
    assert read(fs.crash_image()) == [1, 4]


def test_closing_after_the_disk_was_full_at_the_header() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.ENOSPC, 1, kinds={Call.WRITE})))
    writer = new_writer(fs)
    with pytest.raises(OutOfSpace):
        writer.write([rows(1)])
    assert writer.close() is None
    assert entries(fs) == []


@pytest.mark.parametrize("call", [Call.CREATE, Call.WRITE, Call.SYNC, Call.SYNC_DIR])
@pytest.mark.parametrize("failure", [Failure.EIO, Failure.EIO_AFTER])
def test_after_any_other_failure_nothing_is_written(call: Call, failure: Failure) -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs)  # making the directory syncs, too
    fs.faults._plan = (Fault(failure, 1, kinds={call}),)
    fs.faults._seen = [0]
    with pytest.raises(StorageFailed):
        writer.write([rows(1)])
    fs.faults.heal()
    with pytest.raises(StorageFailed, match="failed before"):
        writer.write([rows(2)])
    assert writer.close() is None
    assert read(fs.crash_image()) == []


DURABLE_STEPS = [
    AFTER_CREATE,
    AFTER_HEADER_WRITE,
    AFTER_HEADER_SYNC,
    AFTER_DIRECTORY_SYNC,
    AFTER_RESERVE,
    AFTER_WRITE,
    AFTER_TRIM,
    AFTER_SYNC,
]


@pytest.mark.parametrize("name", DURABLE_STEPS)
@pytest.mark.parametrize("hit", [1, 2])
def test_a_crash_at_every_step_loses_nothing_written_before(name: str, hit: int) -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1024, reserve_bytes=200)
    kept: list[int] = []

    def write_until_the_crash() -> None:
        for txn in range(1, 9):
            writer.write([rows(txn, value=bytes(300))])
            kept.append(txn)

    with armed(name, crash(), hit=hit), pytest.raises(SimulatedCrash):
        write_until_the_crash()
    found = read(fs.crash_image())
    assert found[: len(kept)] == kept
    assert len(found) <= len(kept) + 1


def test_every_step_has_its_failpoint() -> None:
    with counting() as passes:
        writer = new_writer(MemoryFileSystem(), reserve_bytes=1_024)
        writer.write([rows(1)])
        writer.close()
    assert set(DURABLE_STEPS) == {name for name in passes if name in declared() and "log" in name}


def test_a_file_is_as_long_as_reserved_until_its_last_entry() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1 << 20, reserve_bytes=1 << 16)
    path = f"{DIRECTORY}/00000001.log"
    sizes = []
    for txn in range(1, 200):
        written = writer.write([rows(txn, value=bytes(1_000))])
        data = fs.read_all(path)
        sizes.append(len(data))
        assert not data[written.file_bytes :].strip(b"\x00")
    assert 3 <= len(set(sizes)) < 6, "it grows in steps"
    assert max(sizes) - written.file_bytes <= RESERVE_BYTES_MIN
    assert read(fs.crash_image()) == list(range(1, 200))
    last = writer.close()
    assert last is not None
    assert len(fs.read_all(path)) == last.file_bytes
    assert read(fs.crash_image()) == list(range(1, 200))


def test_a_file_that_rolls_ends_with_its_last_entry() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=4_096, reserve_bytes=1 << 16)
    for txn in range(1, 30):
        writer.write([rows(txn, value=bytes(500))])
    assert len(fs.list(DIRECTORY)) > 3
    assert read(fs.crash_image()) == list(range(1, 30))


def test_without_the_space_to_reserve_entries_are_written_all_the_same() -> None:
    fs = MemoryFileSystem(capacity_bytes=2_000)
    writer = new_writer(fs, reserve_bytes=1 << 16)
    for txn in range(1, 6):
        writer.write([rows(txn)])
    with pytest.raises(OutOfSpace):
        writer.write([rows(6, value=bytes(2_000))])
    assert read(fs.crash_image()) == list(range(1, 6))


def test_a_header_tells_what_was_released() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1024)
    writer.write([rows(1, value=bytes(1_000))])
    writer.write([rows(2, value=bytes(400))])
    writer.write([release_commit(3, 2), rows(4, value=bytes(600))])
    writer.write([rows(5)])
    fs.delete(f"{DIRECTORY}/00000001.log")
    fs.delete(f"{DIRECTORY}/00000002.log")
    data = fs.read_all(f"{DIRECTORY}/00000003.log")
    assert int.from_bytes(data[40:48], "little") == 2


def test_headers_are_as_documented() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, clock=99)
    writer.write([rows(100), rows(101)])
    data = fs.read_all(f"{DIRECTORY}/00000001.log")
    assert data[:12] == b"STELELOG\x01\x00\x00\x00"
    assert data[24:32] == (1).to_bytes(8, "little")
    assert data[48:56] == (99).to_bytes(8, "little")
    assert data[56:59] == b"\x02s1"
    entry = data[FILE_HEADER_BYTES:]
    assert entry[:8] == data[16:24]
    assert int.from_bytes(entry[24:32], "little") == 100
    assert int.from_bytes(entry[32:40], "little") == 101
    assert len(entry) == ENTRY_HEADER_BYTES + int.from_bytes(entry[40:44], "little")
    assert entry[44:48] == data[124:128]
    assert int.from_bytes(entry[52:56], "little") == 2
