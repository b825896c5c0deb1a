"""Publishing under every crash and every error, and the handles' refusals."""

from __future__ import annotations

import pytest

from stele.env import files
from stele.env.failpoints import SimulatedCrash, armed, counting, crash, fail
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.env.ports import TEMPORARY_SUFFIX, FileSystem
from stele.errors import AlreadyExists, NotFound, OutOfSpace, StorageFailed
from stele.sim.crash import CrashPoint, Notes, explore
from stele.sim.io_sweep import sweep

VALUES = [bytes([n]) * size for n, size in enumerate([3, 700, 0, 1500], start=1)]
PUBLISHING = [
    files.AFTER_TEMPORARY_WRITE,
    files.AFTER_TEMPORARY_SYNC,
    files.AFTER_PUBLISH,
    files.AFTER_PUBLISH_SYNC,
]


def replace_values(fs: FileSystem, notes: Notes) -> None:
    fs.mkdir("d")
    for value in VALUES:
        notes.attempt(value)
        fs.write_atomic("d/config", value)
        notes.ack(value)


def check_replaced(fs: FileSystem, point: CrashPoint) -> list[bytes]:
    """The newest acknowledged value, or one attempted after it; nothing in between."""
    try:
        found = fs.read_all("d/config")
    except NotFound:
        assert not point.acked
        return []
    allowed = VALUES[max(0, len(point.acked) - 1) : len(point.attempted)]
    assert found in allowed
    assert all(name == "config" or name.endswith(TEMPORARY_SUFFIX) for name in fs.list("d"))
    fs.sync_dir("d")
    return VALUES[: VALUES.index(found) + 1]


def test_write_atomic_in_every_crash_state() -> None:
    report = explore(replace_values, check_replaced, seed=1, states_max=3_000, nested_max=60)
    report.require(moments_exhausted=report.moments, states=30, torn=10, split=5, names=20)
    report.require(nested_chains=40, nested_states=80)


def test_write_atomic_with_every_call_failing() -> None:
    sweep(replace_values, check_replaced, seed=1).require(
        runs=130, runs_tolerated=5, create=8, write=8, cut=1, sync=8, rename=8, sync_dir=8, mkdir=2
    )


def compete(fs: FileSystem, notes: Notes) -> None:
    for value in VALUES[:3]:
        notes.attempt(value)
        try:
            fs.create_exclusive("SEALED", value)
        except AlreadyExists:
            # A loser acts on the winner's file: from here on it is as good as acknowledged.
            notes.ack(fs.read_all("SEALED"))
        else:
            notes.ack(value)


def check_one_winner(fs: FileSystem, point: CrashPoint) -> list[bytes]:
    if not fs.exists("SEALED"):
        assert not point.acked
        return []
    found = fs.read_all("SEALED")
    assert found in point.attempted
    assert set(point.acked) <= {found}, "somebody was told of another winner"
    fs.sync_dir("")
    return [found]


def test_create_exclusive_in_every_crash_state() -> None:
    report = explore(compete, check_one_winner, seed=2, states_max=3_000, nested_max=60)
    report.require(moments_exhausted=report.moments, states=18, torn=4, split=4, names=15)
    report.require(nested_chains=30, nested_states=60)


def test_create_exclusive_with_every_call_failing() -> None:
    sweep(compete, check_one_winner, seed=2).require(runs=80, link=6, sync=6, delete=6, sync_dir=6)


@pytest.mark.parametrize("name", PUBLISHING)
@pytest.mark.parametrize("publish", ["write_atomic", "create_exclusive"])
def test_a_crash_at_any_step_leaves_the_old_or_the_new(name: str, publish: str) -> None:
    fs = MemoryFileSystem()
    with armed(name, crash()) as point, pytest.raises(SimulatedCrash):
        getattr(fs, publish)("a", b"new")
    assert point.fired == 1
    image = fs.crash_image()
    assert image.exists("a") is (name == files.AFTER_PUBLISH_SYNC)
    assert not image.exists("a") or image.read_all("a") == b"new"


def test_every_step_is_passed() -> None:
    fs = MemoryFileSystem()
    with counting() as passes:
        fs.write_atomic("a", b"x")
        fs.create_exclusive("b", b"x")
    assert passes == dict.fromkeys(PUBLISHING, 2)


def test_a_failure_cleans_up_after_itself() -> None:
    fs = MemoryFileSystem()
    with armed(files.AFTER_TEMPORARY_SYNC, fail(OutOfSpace)), pytest.raises(OutOfSpace):
        fs.write_atomic("a", b"x")
    assert fs.list("") == []


def test_a_write_error_other_than_a_full_disk_is_final() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.EIO, 2, {Call.WRITE})))
    file = fs.create("a")
    file.write(b"one")
    with pytest.raises(StorageFailed, match="cannot write 'a'"):
        file.write(b"two")
    with pytest.raises(StorageFailed, match="failed before"):
        file.write(b"three")
    with pytest.raises(StorageFailed, match="failed before"):
        file.sync()
    assert (file.position, file.closed) == (3, False)
    file.close()
    assert file.closed


def test_a_write_that_cannot_be_undone_is_final() -> None:
    faults = Faults(Fault(Failure.ENOSPC, 1, {Call.WRITE}), Fault(Failure.EIO, 1, {Call.CUT}))
    file = MemoryFileSystem(faults=faults).create("a")
    with pytest.raises(StorageFailed, match="cannot undo a write to 'a'"):
        file.write(b"data")
    with pytest.raises(StorageFailed, match="failed before"):
        file.write(b"data")


def test_a_file_that_grows_while_read_is_read_to_its_end() -> None:
    fs = MemoryFileSystem()
    file = fs.create("a")
    file.write(b"first")
    with fs.open_read("a") as reader:
        assert reader.size() == 5
        file.write(b" second")
        assert fs.read_all("a") == b"first second"
        assert reader.pread(0, 100) == b"first second"


@pytest.mark.parametrize("filled", [True, False], ids=["filled", "empty"])
@pytest.mark.parametrize("failure", [Failure.ENOSPC, None], ids=["no space", "space"])
def test_what_is_reserved_is_a_hint(failure: Failure | None, filled: bool) -> None:
    faults = Faults(Fault(failure, 1, {Call.ALLOCATE})) if failure else Faults()
    fs = MemoryFileSystem(faults=faults)
    file = fs.create("f")
    fs.sync_dir("")
    file.write(b"head")
    file.reserve(10, filled=filled)
    assert fs.read_all("f") == (b"head" if failure else b"head" + bytes(6))
    file.sync()
    file.write(b"tail")
    file.reserve(3, filled=filled)
    assert fs.crash_image().read_all("f")[:4] == b"head"
    file.sync()
    file.trim()
    file.sync()
    file.close()
    assert fs.crash_image().read_all("f") == b"headtail"


def test_an_error_while_reserving_is_final() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.EIO, 1, {Call.ALLOCATE})))
    file = fs.create("f")
    with pytest.raises(StorageFailed, match="reserve space for 'f'"):
        file.reserve(10)
    with pytest.raises(StorageFailed, match="failed before"):
        file.write(b"x")
