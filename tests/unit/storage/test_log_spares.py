"""Log files that are written once more."""

from __future__ import annotations

import pytest

from stele.env.failpoints import armed
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import SteleError
from stele.storage.log_format import file_name, spare_name
from stele.storage.log_parts import release_commit
from stele.storage.log_spares import AFTER_DELETE, SPARES_MAX, SpareFiles
from stele.storage.log_writer import LogWriter
from tests.unit.storage.log_support import DIRECTORY, new_writer, read, recover, rows

FILE_BYTES = 1_024


def directory(sizes: dict[str, int]) -> tuple[MemoryFileSystem, SpareFiles]:
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    for name, size in sizes.items():
        with fs.create(f"{DIRECTORY}/{name}") as file:
            file.write(bytes(size))
            file.sync()
    fs.sync_dir(DIRECTORY)
    return fs, SpareFiles(fs, DIRECTORY, FILE_BYTES)


def released(fs: MemoryFileSystem, *, groups: int = 8) -> LogWriter:
    """A log whose first two files are spares."""
    writer = new_writer(fs, roll_bytes=FILE_BYTES)
    for txn in range(1, groups + 1):
        writer.write([rows(txn, value=bytes(400))])
    writer.write([release_commit(groups + 1, 3)])
    assert writer.spares.keep_or_delete([1, 2]) == [1, 2]
    return writer


def test_some_are_kept_and_the_others_deleted() -> None:
    kept, last = range(1, SPARES_MAX + 1), SPARES_MAX + 3
    sizes = {file_name(number): FILE_BYTES for number in range(1, last + 1)}
    fs, spares = directory(sizes | {"other": 5})
    assert spares.keep_or_delete(range(1, last)) == [*range(1, last)]
    names = [spare_name(number) for number in kept]
    assert fs.list(DIRECTORY) == [*names, file_name(last), "other"]
    assert spares.keep_or_delete(range(1, last)) == []
    assert [spares.take() for _ in kept] == [f"{DIRECTORY}/{name}" for name in names]
    assert spares.take() is None


def test_a_huge_file_is_not_kept() -> None:
    fs, spares = directory({file_name(1): 2 * FILE_BYTES + 1, file_name(2): 2 * FILE_BYTES})
    spares.keep_or_delete([1, 2])
    assert fs.list(DIRECTORY) == [spare_name(2)]


def test_a_file_that_somebody_else_removed_is_no_error() -> None:
    names = {file_name(number): FILE_BYTES for number in range(1, SPARES_MAX + 3)}
    fs, spares = directory(names)
    other = f"{DIRECTORY}/{file_name(SPARES_MAX + 2)}"

    def take_the_other(_name: str) -> None:
        if fs.exists(other):
            fs.delete(other)

    with armed(AFTER_DELETE, take_the_other):
        assert spares.keep_or_delete(range(1, SPARES_MAX + 3)) == [*range(1, SPARES_MAX + 2)]


def test_on_a_full_disk_all_are_given_back() -> None:
    fs, spares = directory({file_name(1): FILE_BYTES, file_name(2): FILE_BYTES})
    spares.keep_or_delete([1, 2])
    spares.give_back()
    assert fs.list(DIRECTORY) == []
    assert spares.take() is None


def test_a_spare_becomes_the_next_file_and_keeps_its_length() -> None:
    fs = MemoryFileSystem()
    writer = released(fs)
    before = fs.list(DIRECTORY)
    assert before[:2] == [spare_name(1), spare_name(2)]
    length = len(fs.read_all(f"{DIRECTORY}/{spare_name(1)}"))
    for txn in range(10, 13):
        writer.write([rows(txn, value=bytes(400))])
    newest = max(name for name in fs.list(DIRECTORY) if name.endswith(".log"))
    assert newest not in before
    assert spare_name(1) not in fs.list(DIRECTORY)
    assert len(fs.read_all(f"{DIRECTORY}/{newest}")) == length
    found = read(fs)
    assert {10, 11, 12} <= set(found)
    assert recover(fs.restarted()) == found


def test_what_is_written_into_a_spare_survives_and_what_it_held_does_not() -> None:
    fs = MemoryFileSystem()
    writer = released(fs)
    for txn in range(10, 40):
        writer.write([rows(txn, value=bytes(100))])
        assert recover(fs.crash_image())[-1] == txn
    assert 1 not in read(fs.crash_image())


def test_the_end_of_a_log_gives_its_spares_back() -> None:
    fs = MemoryFileSystem()
    writer = released(fs)
    writer.close()
    assert all(name.endswith(".log") for name in fs.list(DIRECTORY))


def test_without_room_for_a_name_the_spare_goes_and_the_log_goes_on() -> None:
    renamed = 2  # into spares
    faults = Faults(Fault(Failure.ENOSPC, renamed + 1, kinds={Call.RENAME}))
    fs = MemoryFileSystem(faults=faults)
    writer = released(fs, groups=6)
    while spare_name(1) in fs.list(DIRECTORY):  # until a new file is due
        txn = writer.clock + 1
        writer.write([rows(txn, value=bytes(400))])
    assert faults.fired == 1
    assert read(fs)[-1] == txn == recover(fs.crash_image())[-1]


def test_a_spare_that_cannot_be_opened_is_not_left_behind() -> None:
    fs = MemoryFileSystem()
    writer = released(fs, groups=6)
    fs.faults = fs._memory_kernel.faults = Faults(Fault(Failure.EMFILE, 1, kinds={Call.OPEN}))
    while not fs.faults.fired:  # until a new file is due
        txn = writer.clock + 1
        writer.write([rows(txn, value=bytes(400))])
    assert [name for name in fs.list(DIRECTORY) if name.endswith(".spare")] == []
    assert read(fs)[-1] == txn == recover(fs.crash_image())[-1]


@pytest.mark.parametrize("call", [Call.SYNC_DIR, Call.RENAME])
def test_what_could_not_be_kept_is_not_left_behind(call: Call) -> None:
    fs, spares = directory({file_name(1): FILE_BYTES, file_name(2): FILE_BYTES})
    faults = Faults(Fault(Failure.EIO, 1 if call is Call.SYNC_DIR else 2, kinds={call}))
    fs.faults = fs._memory_kernel.faults = faults
    with pytest.raises(SteleError):
        spares.keep_or_delete([1, 2])
    assert faults.fired == 1
    assert [name for name in fs.list(DIRECTORY) if name.endswith(".spare")] == []
    assert spares.take() is None


def test_nothing_is_renamed_once_the_log_has_ended() -> None:
    fs, spares = directory({file_name(1): FILE_BYTES})
    spares.close()
    assert spares.keep_or_delete([1]) == []
    assert fs.list(DIRECTORY) == [file_name(1)]


def test_a_full_disk_finds_room_where_spares_are() -> None:
    fs = MemoryFileSystem()
    writer = released(fs)
    txn = writer.clock + 1
    fs.capacity_bytes = fs.disk.used_bytes + 100
    writer.write([rows(txn, value=bytes(500))])
    assert read(fs)[-1] == txn
    assert [name for name in fs.list(DIRECTORY) if name.endswith(".spare")] == []
