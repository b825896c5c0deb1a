"""Images: chunks, staging, and a crash at every step on the way to being the state."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption
from stele.metastore import snapshots as s
from stele.raft import Membership, Snapshot, StoredState

IMAGE = Snapshot(40, 3, Membership((1, 2)))
LATER = Snapshot(60, 3, Membership((1, 2)))
CHUNKS = [b"first", b"", b"third" * 1000]


class Target:
    """A state that is its applied index and its bytes."""

    def __init__(self, applied: int = 7) -> None:
        self.applied_index = applied
        self.contents: list[bytes] = []

    def stage(self, chunks: Iterable[bytes]) -> StagedContents:
        return StagedContents(self, list(chunks))


class StagedContents:
    """What an image holds, for a target."""

    def __init__(self, target: Target, contents: list[bytes]) -> None:
        self._target = target
        self._contents = contents

    def adopt(self) -> None:
        self._target.contents = self._contents
        self._target.applied_index = IMAGE.index

    def retire(self) -> None:
        assert self._target.contents is self._contents


def receive(inbox: s.ImageInbox, snapshot: Snapshot = IMAGE) -> None:
    done = [inbox.take(snapshot, chunk) for chunk in s.number_chunks(CHUNKS)]
    assert done == [False, False, True]
    inbox.publish()


def install(inbox: s.ImageInbox, target: Target) -> None:
    installation = s.Installation(inbox, target, IMAGE)
    assert target.contents == [], "the state goes on while the image is put beside it"
    installation.adopt()
    assert inbox.holds(IMAGE), "needed until what was before is gone"
    installation.retire()


@pytest.mark.parametrize("chunks", [[], [b"one"], CHUNKS])
def test_the_last_chunk_is_marked(chunks: list[bytes]) -> None:
    numbered = list(s.number_chunks(iter(chunks)))
    assert [c.number for c in numbered] == list(range(max(1, len(chunks))))
    assert [c.is_last for c in numbered] == [False] * (len(numbered) - 1) + [True]
    assert [c.data for c in numbered] == (chunks or [b""])


def test_an_image_is_there_when_it_is_published_and_durable() -> None:
    fs = MemoryFileSystem()
    inbox = s.ImageInbox(fs, "images")
    for chunk in s.number_chunks(CHUNKS):
        inbox.take(IMAGE, chunk)
    assert not inbox.holds(IMAGE)
    inbox.publish()
    found = s.ImageInbox(fs.crash_image(), "images")
    assert found.holds(IMAGE)
    assert list(found.read(IMAGE)) == CHUNKS


def test_a_chunk_that_came_before_is_passed_over() -> None:
    inbox = s.ImageInbox(MemoryFileSystem(), "images")
    first, second, third = s.number_chunks(CHUNKS)
    inbox.take(IMAGE, first)
    inbox.take(IMAGE, second)
    assert not inbox.take(IMAGE, second)
    assert inbox.take(IMAGE, third)


def test_a_chunk_that_does_not_fit_is_refused() -> None:
    inbox = s.ImageInbox(MemoryFileSystem(), "images")
    first, second, third = s.number_chunks(CHUNKS)
    with pytest.raises(Corruption, match="has no place"):
        inbox.take(IMAGE, second)
    inbox.take(IMAGE, first)
    with pytest.raises(Corruption, match="has no place"):
        inbox.take(IMAGE, third)
    with pytest.raises(Corruption, match="has no place"):
        inbox.take(LATER, second)
    with pytest.raises(Corruption, match="damaged"):
        inbox.take(IMAGE, s.NumberedChunk(1, b"x", 0, is_last=False))


def test_chunk_0_begins_anew() -> None:
    fs = MemoryFileSystem()
    inbox = s.ImageInbox(fs, "images")
    first, second, _ = s.number_chunks(CHUNKS)
    inbox.take(IMAGE, first)
    inbox.take(IMAGE, second)
    receive(inbox, LATER)
    assert fs.list("images") == ["image-0000000000000060-3"]
    assert list(inbox.read(LATER)) == CHUNKS


def test_a_damaged_staged_image_is_named() -> None:
    fs = MemoryFileSystem()
    inbox = s.ImageInbox(fs, "images")
    receive(inbox)
    (name,) = fs.list("images")
    data = bytearray(fs.read_all(f"images/{name}"))
    data[-1] ^= 1
    fs.write_atomic(f"images/{name}", bytes(data))
    with pytest.raises(Corruption, match="staged image"):
        list(inbox.read(IMAGE))


def test_installing_an_image_leaves_a_later_one_alone() -> None:
    inbox = s.ImageInbox(MemoryFileSystem(), "images")
    receive(inbox, IMAGE)
    receive(inbox, LATER)
    install(inbox, Target())
    assert not inbox.holds(IMAGE)
    assert inbox.holds(LATER)


def test_a_start_installs_what_the_log_is_ahead_by() -> None:
    inbox = s.ImageInbox(MemoryFileSystem(), "images")
    receive(inbox)
    target = Target()
    stored = s.recover_state(StoredState(snapshot=IMAGE), target, inbox)
    assert target.contents == CHUNKS
    assert stored.applied == IMAGE.index
    assert not inbox.holds(IMAGE)


def test_a_start_forgets_an_image_that_the_log_knows_nothing_of() -> None:
    inbox = s.ImageInbox(MemoryFileSystem(), "images")
    receive(inbox)
    target = Target()
    stored = s.recover_state(StoredState(), target, inbox)
    assert stored.applied == 7
    assert target.contents == []
    assert not inbox.holds(IMAGE)


def test_a_gap_that_no_image_fills_is_refused_with_the_way_out() -> None:
    inbox = s.ImageInbox(MemoryFileSystem(), "images")
    with pytest.raises(Corruption, match="join again under a new id"):
        s.recover_state(StoredState(snapshot=IMAGE), Target(), inbox)


def receive_and_install(inbox: s.ImageInbox, log: list[Snapshot]) -> None:
    receive(inbox)
    log.append(IMAGE)
    install(inbox, Target())


@pytest.mark.parametrize(
    "point", [s.AFTER_CHUNK, s.AFTER_SYNC, s.AFTER_RENAME, s.AFTER_STAGE, s.AFTER_INSTALL]
)
def test_after_a_crash_anywhere_there_is_one_answer(point: str) -> None:
    """The log begins anew between publishing and installing; that decides what a start does."""
    fs = MemoryFileSystem()
    log: list[Snapshot] = []
    with armed(point, crash()), pytest.raises(SimulatedCrash):
        receive_and_install(s.ImageInbox(fs, "images"), log)
    found = s.ImageInbox(fs.crash_image(), "images")
    survivor = Target()
    stored = StoredState(snapshot=IMAGE) if log else StoredState()
    recovered = s.recover_state(stored, survivor, found)
    assert recovered.applied == (IMAGE.index if log else 7)
