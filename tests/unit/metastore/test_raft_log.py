"""The durable log: what survives which end, segments, compaction, a full disk."""

from __future__ import annotations

import pytest

from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import AlreadyExists, NotFound, OutOfSpace, StorageFailed
from stele.metastore.events import Group
from stele.metastore.raft_log import RESERVE_FILE, RaftLog, RaftLogOptions
from stele.metastore.raft_log_format import LogIdentity
from stele.raft import Entry, EntryKind, HardState, Membership, Snapshot, StoredState, bootstrap

IDENTITY = LogIdentity("c1", 3)
SMALL = RaftLogOptions(segment_bytes=300, reserve_bytes=4_000)
FOUNDERS = Membership((1, 2, 3))


def entries(first: int, last: int, term: int = 1) -> tuple[Entry, ...]:
    return tuple(Entry(term, i, EntryKind.DATA, b"%d" % i) for i in range(first, last + 1))


def group(*items: Entry, hard: HardState | None = None, reset: Snapshot | None = None) -> Group:
    return Group(1, reset, items, hard, needs_sync=True)


def create(fs: MemoryFileSystem, stored: StoredState | None = None) -> RaftLog:
    return RaftLog.create(fs, "log", SeededRandom(1), IDENTITY, stored or StoredState(), SMALL)


def reopen(fs: MemoryFileSystem) -> RaftLog:
    return RaftLog.open(fs, "log", SeededRandom(2), SMALL)


def write(log: RaftLog, *groups: Group, base: Snapshot | None = None) -> None:
    log.append(groups, base)
    log.sync()


def write_many(log: RaftLog, first: int) -> None:
    for index in range(first, 1_000):
        write(log, group(*entries(index, index)))


def is_short(log: RaftLog) -> bool:
    return log.space_is_short


def test_a_new_log_is_durable_at_once() -> None:
    fs = MemoryFileSystem()
    stored = bootstrap(FOUNDERS)
    create(fs, stored)
    found = reopen(fs.crash_image())
    assert found.stored == stored
    assert found.identity == IDENTITY


def test_what_was_synced_survives_and_what_was_not_is_gone() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    write(log, group(*entries(1, 3), hard=HardState(1, 2, 0)))
    log.append([group(*entries(4, 5))])
    assert len(reopen(fs.crash_image()).stored.entries) == 3
    assert len(reopen(fs.restarted()).stored.entries) == 5


def test_what_a_killed_process_left_is_durable_once_it_was_read() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    log.append([group(*entries(1, 2))])
    after_kill = fs.restarted()
    assert len(reopen(after_kill).stored.entries) == 2
    assert len(reopen(after_kill.crash_image()).stored.entries) == 2


def test_of_two_owners_one_notices_before_anything_is_lost() -> None:
    fs = MemoryFileSystem()
    old = create(fs)
    write(old, group(*entries(1, 2)))
    new = reopen(fs)
    write(old, group(*entries(3, 3)))  # acknowledged, and the newcomer has not read it
    with pytest.raises(StorageFailed, match="another process"):
        new.append([group(*entries(3, 3, term=2))])
    assert len(reopen(fs).stored.entries) == 3
    newest = reopen(fs)
    write(newest, group(*entries(4, 4, term=2)))
    old.append([group(*entries(4, 4))])
    with pytest.raises(StorageFailed, match="another process"):
        old.sync()
    assert [entry.term for entry in reopen(fs).stored.entries] == [1, 1, 1, 2]


def sizes(fs: MemoryFileSystem) -> list[int]:
    names = [name for name in fs.list("log") if name.startswith("raft-")]
    return [len(fs.read_all(f"log/{name}")) for name in names]


def test_a_segment_is_taken_ahead_and_given_back() -> None:
    fs = MemoryFileSystem()
    roomy = RaftLogOptions(segment_bytes=1_000, reserve_bytes=64, ahead_bytes=400)
    log = RaftLog.create(fs, "log", SeededRandom(1), IDENTITY, StoredState(), roomy)
    index, seen = 0, set()
    while len(sizes(fs)) < 2:
        index += 1
        write(log, group(*entries(index, index)))
        seen.add(sizes(fs)[0])
        assert len(reopen(fs.crash_image()).stored.entries) == index
    assert 2 <= len(seen) <= 5, "a file that grows with every frame gains nothing"
    full, _begun = sizes(fs)
    assert 1_000 <= full < 1_100, "what was not written was given back"
    write(log, group(*entries(index + 1, index + 1)))
    longer = sizes(fs)[1]
    log.close()
    assert sizes(fs)[1] < longer
    again = reopen(fs)
    for last in (index + 2, index + 3):
        write(again, group(*entries(last, last)))
    killed = fs.restarted()
    assert killed.read_all("log/raft-00000003.log").endswith(bytes(50)), "nobody gave it back"
    assert len(reopen(killed).stored.entries) == index + 3


def test_without_the_room_to_go_ahead_frames_are_written_all_the_same() -> None:
    fs = MemoryFileSystem()
    roomy = RaftLogOptions(segment_bytes=1 << 20, reserve_bytes=64, ahead_bytes=1 << 16)
    log = RaftLog.create(fs, "log", SeededRandom(1), IDENTITY, StoredState(), roomy)
    fs.capacity_bytes = fs.disk.used_bytes + 2_000
    write(log, group(*entries(1, 3)))
    assert not is_short(log)
    assert sizes(fs)[0] < 2_000
    assert len(reopen(fs.crash_image()).stored.entries) == 3


def test_a_conflict_overrides_entries_also_in_earlier_segments() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    for i in range(1, 40):
        write(log, group(*entries(i, i), hard=HardState(1, 0, 0)))
    write(log, group(*entries(5, 6, term=2), hard=HardState(2, 0, 4)))
    stored = reopen(fs.crash_image()).stored
    assert [(e.term, e.index) for e in stored.entries][-3:] == [(1, 4), (2, 5), (2, 6)]
    assert stored.hard_state == HardState(2, 0, 4)


def test_segments_roll_and_go_when_the_log_is_cut() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    for i in range(1, 60):
        write(log, group(*entries(i, i), hard=HardState(1, 2, i)))
    before = [name for name in fs.list("log") if name.startswith("raft-")]
    assert len(before) > 5
    base = Snapshot(50, 1, FOUNDERS)
    write(log, base=base)
    assert log.drop_dead_segments() > 3
    stored = reopen(fs.crash_image()).stored
    assert stored.snapshot == base
    assert [e.index for e in stored.entries] == list(range(51, 60))
    assert stored.hard_state == HardState(1, 2, 59)


def test_deleted_segments_that_come_back_do_no_harm() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    for i in range(1, 60):
        write(log, group(*entries(i, i), hard=HardState(1, 2, i)))
    kept = {name: fs.read_all(f"log/{name}") for name in fs.list("log")}
    write(log, base=Snapshot(50, 1, FOUNDERS))
    log.drop_dead_segments()
    log.close()
    again = fs.restarted()
    again.create_exclusive("log/raft-00000001.log", kept["raft-00000001.log"])
    assert [e.index for e in reopen(again).stored.entries] == list(range(51, 60))
    assert "raft-00000001.log" not in again.list("log")


def test_a_reset_forgets_everything_before_it() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    write(log, group(*entries(1, 9), hard=HardState(1, 0, 3)))
    image = Snapshot(100, 4, FOUNDERS)
    write(log, group(*entries(101, 102, term=5), reset=image, hard=HardState(5, 0, 100)))
    stored = reopen(fs.crash_image()).stored
    assert stored.snapshot == image
    assert [e.index for e in stored.entries] == [101, 102]


def test_a_cut_that_an_image_has_overtaken_does_not_take_the_beginning_back() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    write(log, group(*entries(1, 9), hard=HardState(1, 0, 9)))
    image = Snapshot(100, 4, FOUNDERS)
    reset = group(*entries(101, 101, term=4), reset=image, hard=HardState(4, 0, 100))
    write(log, reset, base=Snapshot(5, 1, FOUNDERS))
    stored = reopen(fs.crash_image()).stored
    assert stored.snapshot == image
    assert [e.index for e in stored.entries] == [101]


def test_every_restart_settles_the_tail_of_the_one_before() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    write(log, group(*entries(1, 1)))
    log.append([group(*entries(2, 2))])
    for life in range(2, 6):
        fs = fs.crash_image()
        log = reopen(fs)
        assert [e.index for e in log.stored.entries] == list(range(1, life))
        write(log, group(*entries(life, life)))
        log.append([group(*entries(life + 1, life + 9))])


def test_a_segment_begun_in_vain_gives_its_number_away() -> None:
    fs = MemoryFileSystem()
    write(create(fs), group(*entries(1, 1)))
    fs.create("log/raft-00000002.log").write(b"half a fra")
    again = fs.restarted()
    log = reopen(again)
    assert "raft-00000002.log" not in again.list("log")
    write(log, group(*entries(2, 2)))
    assert again.list("log")[:2] == ["raft-00000001.log", "raft-00000002.log"]
    assert len(reopen(again.crash_image()).stored.entries) == 2


def test_a_log_is_never_created_over_another() -> None:
    fs = MemoryFileSystem()
    create(fs)
    with pytest.raises(AlreadyExists, match="a member lives there"):
        create(fs)


def test_a_log_whose_creation_was_cut_short_may_be_created_again() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("log")
    fs.write_atomic("log/raft-00000001.log", b"half a fra")
    with pytest.raises(NotFound, match="bootstrap a group or join one"):
        reopen(fs)
    write(create(fs), group(*entries(1, 1)))
    assert len(reopen(fs.crash_image()).stored.entries) == 1


@pytest.mark.parametrize("directory", ["log", "elsewhere"])
def test_without_a_log_there_is_advice(directory: str) -> None:
    fs = MemoryFileSystem()
    fs.mkdir("log")
    with pytest.raises(NotFound, match="bootstrap a group or join one"):
        RaftLog.open(fs, directory, SeededRandom(1))


def test_a_failed_sync_is_not_tried_again() -> None:
    faults = Faults(Fault(Failure.EIO, call=3, kinds={Call.SYNC}))
    fs = MemoryFileSystem(faults=faults)
    log = create(fs)
    log.append([group(*entries(1, 1))])
    with pytest.raises(StorageFailed):
        log.sync()
    with pytest.raises(StorageFailed):
        log.sync()
    assert faults.fired == 1


def test_a_full_disk_takes_the_reserve_then_refuses_and_goes_on_when_there_is_room() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    assert RESERVE_FILE in fs.list("log")
    fs.capacity_bytes = fs.disk.used_bytes + 50
    write(log, group(*entries(1, 5)))
    assert is_short(log)
    assert RESERVE_FILE not in fs.list("log")
    big = group(Entry(1, 6, EntryKind.DATA, bytes(5_000)))
    with pytest.raises(OutOfSpace):
        log.append([big])
    log.restore_reserve()
    assert is_short(log)
    fs.capacity_bytes = 1 << 30
    write(log, big)
    log.restore_reserve()
    assert not is_short(log)
    assert [e.index for e in reopen(fs.crash_image()).stored.entries] == list(range(1, 7))


def test_a_full_disk_while_a_segment_begins_leaves_no_trace() -> None:
    fs = MemoryFileSystem()
    log = create(fs)
    for i in range(1, 12):
        write(log, group(*entries(i, i)))
    fs.delete(f"log/{RESERVE_FILE}")
    fs.capacity_bytes = fs.disk.used_bytes
    before = fs.list("log")
    with pytest.raises(OutOfSpace):
        write_many(log, 12)
    assert fs.list("log") == before
    fs.capacity_bytes = 1 << 30
    held = len(reopen(fs.crash_image()).stored.entries)
    write(log, group(*entries(held + 1, held + 1)))
    assert len(reopen(fs.crash_image()).stored.entries) == held + 1
