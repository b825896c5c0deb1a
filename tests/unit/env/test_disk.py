"""The disk: steps that replay, images that share nothing they should not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.disk import (
    COLLECT_AFTER_UNLINKS,
    ROOT,
    Disk,
    KeepUnsynced,
    LoseUnsynced,
)
from stele.env.unsynced import UnsyncedFile


class Dice:
    """A choice by seed, over everything that the model allows."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def contents(self, inode: int, file: UnsyncedFile) -> bytes:
        versions = [self._dice.randrange(len(s.contents)) for s in file.sectors]
        return file.assemble(self._dice.choice(file.lengths), versions)

    def entries(self, inode: int, changes: int) -> int:
        return self._dice.getrandbits(changes)


def written(disk: Disk, name: str, data: bytes) -> int:
    inode = disk.make(ROOT, name, False, name)
    disk.write(inode, 0, data, name)
    return inode


def names(disk: Disk) -> list[str]:
    return sorted(disk.directory(ROOT).live)


def test_nothing_is_durable_before_both_syncs() -> None:
    disk = Disk()
    inode = written(disk, "a", b"data")
    assert names(disk.crash(LoseUnsynced())) == []
    disk.sync(ROOT, "")
    assert disk.crash(LoseUnsynced()).file(inode).live == b""
    disk.sync(inode, "a")
    assert disk.crash(LoseUnsynced()).file(inode).live == b"data"


def contents_found(disk: Disk, inode: int, seeds: int = 200) -> set[bytes]:
    return {bytes(disk.crash(Dice(seed)).file(inode).live) for seed in range(seeds)}


def test_what_a_file_held_comes_up_behind_what_is_written_over_it() -> None:
    disk = Disk()
    inode = written(disk, "a", b"o" * 1_500)
    disk.sync(inode, "a")
    disk.sync(ROOT, "")
    disk.reuse(inode, "a")
    disk.write(inode, 0, b"n" * 600, "a")
    assert disk.file(inode).live == b"n" * 600 + b"o" * 900
    old, new = (b"o" * 512, b"o" * 988), (b"n" * 512, b"n" * 88 + b"o" * 900)
    mixed = {first + rest for first in (old[0], new[0]) for rest in (old[1], new[1])}
    assert contents_found(disk, inode) == mixed
    disk.sync(inode, "a")
    disk.write(inode, 600, b"m", "a")
    assert contents_found(disk, inode) == {new[0] + new[1], b"n" * 600 + b"m" + b"o" * 899}
    disk.sync(inode, "a")
    disk.cut(inode, 601, "a")
    disk.sync(inode, "a")
    disk.grow(inode, 900, "a")
    disk.sync(inode, "a")
    assert contents_found(disk, inode) == {b"n" * 600 + b"m" + bytes(299)}


def test_only_a_file_that_is_synced_is_written_once_more() -> None:
    disk = Disk()
    inode = written(disk, "a", b"data")
    with pytest.raises(AssertionError, match="pending"):
        disk.reuse(inode, "a")


def test_an_image_is_synced_and_apart() -> None:
    disk = Disk()
    inode = written(disk, "a", b"data")
    image = disk.crash(KeepUnsynced())
    assert image.dirty() == []
    assert disk.dirty() == [ROOT, inode]
    image.write(inode, 4, b" in the image", "a")
    disk.write(inode, 4, b" on the disk", "a")
    assert image.file(inode).live == b"data in the image"
    assert disk.file(inode).live == b"data on the disk"
    assert image.crash(LoseUnsynced()).file(inode).live == b"data"


def test_a_copy_keeps_what_is_pending() -> None:
    disk = Disk()
    inode = written(disk, "a", b"data")
    twin = disk.copy()
    disk.sync(inode, "a")
    disk.sync(ROOT, "")
    assert names(twin.crash(LoseUnsynced())) == []
    twin.sync(inode, "a")
    twin.sync(ROOT, "")
    assert twin.crash(LoseUnsynced()).fingerprint() == disk.crash(LoseUnsynced()).fingerprint()


def test_a_rename_within_a_directory_is_whole() -> None:
    disk = Disk()
    written(disk, "old", b"")
    disk.sync(ROOT, "")
    disk.rename(ROOT, "old", ROOT, "new", "")
    outcomes = {tuple(names(disk.crash(Dice(seed)))) for seed in range(20)}
    assert outcomes == {("old",), ("new",)}


def test_a_rename_across_directories_is_two_changes() -> None:
    disk = Disk()
    target = disk.make(ROOT, "d", True, "d")
    written(disk, "f", b"")
    disk.sync(ROOT, "")
    disk.rename(ROOT, "f", target, "f", "")
    outcomes = set()
    for seed in range(40):
        image = disk.crash(Dice(seed))
        outcomes.add((tuple(names(image)), tuple(image.directory(target).live)))
    assert outcomes == {
        (("d", "f"), ()),
        (("d",), ("f",)),
        (("d", "f"), ("f",)),
        (("d",), ()),
    }
    disk.sync(target, "d")
    assert all(disk.crash(Dice(seed)).directory(target).live for seed in range(20))


def test_a_failed_sync_makes_the_disk_lie_until_power_fails() -> None:
    disk = Disk()
    inode = written(disk, "a", b"one")
    disk.sync(ROOT, "")
    disk.fail_sync(inode, "a")
    disk.sync(inode, "a")
    disk.write(inode, 3, b"two", "a")
    disk.sync(inode, "a")
    assert disk.file(inode).live == b"onetwo"
    image = disk.crash(LoseUnsynced())
    assert image.file(inode).live == b""
    image.write(inode, 0, b"fresh", "a")
    image.sync(inode, "a")
    assert image.crash(LoseUnsynced()).file(inode).live == b"fresh"


def test_synced_bytes_cannot_be_changed() -> None:
    disk = Disk()
    inode = written(disk, "a", b"data")
    disk.sync(inode, "a")
    with pytest.raises(AssertionError):
        disk.write(inode, 2, b"x", "a")
    with pytest.raises(AssertionError):
        disk.cut(inode, 2, "a")


def test_space_is_freed_with_the_last_name_and_the_last_handle() -> None:
    disk = Disk()
    inode = written(disk, "a", bytes(1000))
    disk.link(ROOT, "b", inode, "b")
    disk.open(inode)
    disk.unlink(ROOT, "a", "a")
    disk.unlink(ROOT, "b", "b")
    assert disk.used_bytes == 1000
    disk.close(inode)
    assert disk.used_bytes == 0


def test_a_replaced_file_frees_its_space() -> None:
    disk = Disk()
    written(disk, "a", bytes(1000))
    written(disk, "b", bytes(10))
    disk.rename(ROOT, "b", ROOT, "a", "")
    assert disk.used_bytes == 10
    assert disk.crash(KeepUnsynced()).used_bytes == 10


def test_deleted_files_are_forgotten_once_that_is_durable() -> None:
    disk = Disk()
    for number in range(COLLECT_AFTER_UNLINKS - 1):
        written(disk, f"{number}", b"x")
        disk.unlink(ROOT, f"{number}", f"{number}")
    assert len(disk.inodes) == COLLECT_AFTER_UNLINKS, "pending names still lead to them"
    disk.sync(ROOT, "")
    written(disk, "last", b"x")
    disk.unlink(ROOT, "last", "last")
    assert len(disk.inodes) == 2, "the root, and the one whose deletion is pending"


def test_an_open_file_is_not_forgotten() -> None:
    disk = Disk()
    inode = written(disk, "open", b"x")
    disk.open(inode)
    disk.unlink(ROOT, "open", "open")
    for number in range(2 * COLLECT_AFTER_UNLINKS):
        disk.sync(ROOT, "")
        written(disk, f"{number}", b"x")
        disk.unlink(ROOT, f"{number}", f"{number}")
    assert disk.file(inode).live == b"x"
    assert len(disk.inodes) < COLLECT_AFTER_UNLINKS + 3


def test_equal_disks_have_equal_fingerprints() -> None:
    one, two = Disk(), Disk()
    written(one, "a", b"1")
    written(one, "b", b"2")
    written(two, "b", b"2")
    written(two, "a", b"1")
    assert one.fingerprint() == two.fingerprint()
    written(two, "c", b"")
    assert one.fingerprint() != two.fingerprint()


NAMES = st.sampled_from("abcd")
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.integers(1, 1500)),
        st.tuples(st.sampled_from(["sync", "fail_sync", "unlink"]), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.sampled_from(["sync_dir", "fail_sync_dir"])),
    ),
    max_size=30,
)


def perform(disk: Disk, action: tuple[object, ...]) -> None:
    kind, *arguments = action
    if kind in ("sync_dir", "fail_sync_dir"):
        (disk.sync if kind == "sync_dir" else disk.fail_sync)(ROOT, "")
        return
    name = str(arguments[0])
    inode = disk.directory(ROOT).live.get(name)
    if inode is None:
        disk.make(ROOT, name, False, name)
    elif kind == "write":
        size = arguments[1]
        assert isinstance(size, int)
        disk.write(inode, len(disk.file(inode).live), bytes([size % 255 + 1]) * size, name)
    elif kind == "unlink":
        disk.unlink(ROOT, name, name)
    elif kind == "rename":
        disk.rename(ROOT, name, ROOT, str(arguments[1]), name)
    else:
        (disk.sync if kind == "sync" else disk.fail_sync)(inode, name)


@settings(max_examples=150)
@given(ACTIONS, st.integers(0, 1 << 32))
def test_recorded_steps_replay_to_the_same_crash_states(
    actions: list[tuple[object, ...]], seed: int
) -> None:
    disk = Disk()
    written(disk, "a", b"before")
    start = disk.copy()
    disk.steps = []
    for action in actions:
        perform(disk, action)
    again = start.copy()
    for step in disk.steps:
        again.replay(step)
    for choice in (LoseUnsynced(), KeepUnsynced()):
        assert again.crash(choice).fingerprint() == disk.crash(choice).fingerprint()
    assert again.crash(Dice(seed)).fingerprint() == disk.crash(Dice(seed)).fingerprint()


@settings(max_examples=150)
@given(ACTIONS, st.integers(0, 1 << 32))
def test_no_choice_loses_what_is_synced(actions: list[tuple[object, ...]], seed: int) -> None:
    disk = Disk()
    for action in actions:
        perform(disk, action)
    image = disk.crash(Dice(seed))
    root = disk.directory(ROOT)
    touched = {name for change in root.changes for name, _inode in change}
    for name, inode in root.synced.items():
        if name not in touched:
            file = disk.file(inode)
            survivor = image.file(image.directory(ROOT).live[name])
            assert survivor.live[: file.synced_length] == file.live[: file.synced_length]
