"""The root file (T59, T60, T63, M4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    Corruption,
    DirectoryInUse,
    SteleError,
    StorageFailed,
    TabletNotServing,
    UnsupportedFormat,
)
from stele.model.column_set import ALL_COLUMNS
from stele.model.ranges import RowRange
from stele.storage.references import FlushMark, Reference
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.config_store import (
    AFTER_ROOT_SAVE,
    BEFORE_ROOT_SAVE,
    ROOT_FILE,
    ROOT_LOCK,
    RootFile,
)
from tests.unit.tablet.engine_support import cell, fragment, new_store

INFO = fragment(new_store(), [cell(b"a")])
ROOT = TabletConfig(
    "META0.1",
    "META0",
    RowRange(),
    references=(Reference(INFO),),
    marks=(FlushMark(RowRange(), ALL_COLUMNS, 4),),
    log="log/s1.meta",
    revision=1,
)
OLD = TabletConfig("META0.1", "META0", RowRange(), log="log/s0.meta")


def save(root: RootFile, config: TabletConfig, *replaced: TabletConfig) -> SteleError | None:
    answers: list[SteleError | None] = []
    root.save(ConfigEdit(written=(config,), replaced=replaced), answers.append)
    (answer,) = answers
    return answer


def test_t59_t63_log_and_fragments_of_the_root_are_in_one_file() -> None:
    files = MemoryFileSystem()
    root = RootFile(files)
    assert not root.exists()
    assert save(root, ROOT) is None
    assert root.exists()
    assert RootFile(files.crash_image()).load() == ROOT, "durable when the save is answered"


@pytest.mark.parametrize(("name", "found"), [(BEFORE_ROOT_SAVE, OLD), (AFTER_ROOT_SAVE, ROOT)])
def test_t63_a_crash_leaves_the_old_root_or_the_new_one(name: str, found: TabletConfig) -> None:
    files = MemoryFileSystem()
    save(RootFile(files), OLD)
    with armed(name, crash()), pytest.raises(SimulatedCrash):
        save(RootFile(files), ROOT, OLD)
    assert RootFile(files.crash_image()).load() == found


def test_an_owner_that_is_none_any_more_does_not_overwrite_the_root() -> None:
    files = MemoryFileSystem()
    root = RootFile(files)
    assert save(root, OLD) is None
    successor = replace(OLD, epoch=1, log="log/s9.meta")
    assert save(root, successor, OLD) is None
    for known in ((OLD,), (), (replace(successor, revision=5),)):
        answer = save(root, ROOT, *known)
        assert isinstance(answer, TabletNotServing)
        assert "nothing was saved" in str(answer)
    assert root.load() == successor


def test_the_root_is_compared_and_replaced_in_one_step() -> None:
    """Whoever else does so at this moment holds the lock of the file."""
    files = MemoryFileSystem()
    root = RootFile(files)
    with files.lock_exclusive(ROOT_LOCK):
        assert isinstance(save(root, OLD), DirectoryInUse)
    assert not root.exists()
    assert save(root, OLD) is None


def test_a_save_that_fails_is_answered_with_the_reason() -> None:
    faults = Faults(Fault(Failure.EIO, 1, kinds={Call.SYNC}))
    assert isinstance(save(RootFile(MemoryFileSystem(faults=faults)), ROOT), StorageFailed)


def test_every_damaged_byte_is_noticed() -> None:
    files = MemoryFileSystem()
    save(RootFile(files), ROOT)
    data = files.read_all(ROOT_FILE)
    for place in range(len(data) - 1):  # the last newline means nothing
        damaged = bytearray(data)
        damaged[place] ^= 0x04
        files.write_atomic(ROOT_FILE, damaged)
        is_version = data[place : place + 1] == b"1" and data[:place].endswith(b"version=")
        with pytest.raises(UnsupportedFormat if is_version else Corruption, match=ROOT_FILE):
            RootFile(files).load()


def test_the_first_roots_had_no_version() -> None:
    files = MemoryFileSystem()
    save(RootFile(files), ROOT)
    data = files.read_all(ROOT_FILE)
    assert data.startswith(b"stele-root version=1 crc32c=")
    files.write_atomic(ROOT_FILE, data.replace(b" version=1", b"", 1))
    assert RootFile(files).load() == ROOT


@pytest.mark.parametrize("head", [b"stele-root version=2", b"stele-root version=17 sha256=00"])
def test_a_newer_version_is_named_and_not_overwritten(head: bytes) -> None:
    files = MemoryFileSystem()
    files.write_atomic(ROOT_FILE, head + b"\nwhatever\n")
    version = head.split(b"=")[1].split()[0].decode()
    with pytest.raises(UnsupportedFormat, match=f"format version {version}, .* knows 1: a newer"):
        RootFile(files).load()
    assert isinstance(save(RootFile(files), ROOT), UnsupportedFormat)
    assert files.read_all(ROOT_FILE) == head + b"\nwhatever\n"


@pytest.mark.parametrize("data", [b"", b"\n", b"stele-root crc32c=00000000\n\n"])
def test_a_file_that_is_no_root_is_corruption(data: bytes) -> None:
    files = MemoryFileSystem()
    files.write_atomic(ROOT_FILE, data)
    with pytest.raises(Corruption, match=ROOT_FILE):
        RootFile(files).load()


def test_t60_the_root_never_splits() -> None:
    lower = TabletConfig("META0.1", "META0", RowRange(b"", b"m"))
    upper = TabletConfig("META0.2", "META0", RowRange(b"m"))
    with pytest.raises(AssertionError, match="never splits"):
        RootFile(MemoryFileSystem()).save(ConfigEdit(written=(lower, upper)), lambda _: None)
