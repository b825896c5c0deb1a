"""Commits on their way: waiting, being called back, and hearing of failures."""

from __future__ import annotations

import pytest

from stele.env.memory import MemoryClock, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import OutOfSpace, SteleError
from stele.storage.group_commit import GroupCommit
from stele.storage.log_parts import clock_commit
from stele.storage.log_writer import LogWriter
from stele.tablet.pending import KnownCommit, PendingCommit


def new_log(files: MemoryFileSystem) -> GroupCommit:
    writer = LogWriter(files, "log/s1", "s1", SeededRandom(1))
    return GroupCommit(writer, spawn=lambda job: job(), clock=MemoryClock())


def test_a_commit_is_waited_for_or_calls_back_once() -> None:
    log = new_log(MemoryFileSystem())
    first = PendingCommit(clock_commit(1), log=log)
    assert not first.done
    assert first.wait() == first.txn == 1
    told: list[SteleError | None] = []
    second = PendingCommit(clock_commit(2), log=log)
    second.then(told.append)
    assert told == [None]
    second.then(told.append)
    assert told == [None, None], "at once when it is decided already"
    assert second.wait() == 2


def test_a_failed_commit_raises_and_tells_every_listener_its_own_copy() -> None:
    files = MemoryFileSystem()
    log = new_log(files)
    PendingCommit(clock_commit(1), log=log).wait()
    files.capacity_bytes = files.disk.used_bytes
    failed = PendingCommit(clock_commit(2), log=log)
    told: list[SteleError | None] = []
    failed.then(told.append)
    failed.then(told.append)
    with pytest.raises(OutOfSpace):
        failed.wait()
    assert [type(error) for error in told] == [OutOfSpace, OutOfSpace]
    assert told[0] is not told[1]


def test_the_answer_to_a_repeated_request_waits_for_what_follows_it() -> None:
    log = new_log(MemoryFileSystem())
    told: list[SteleError | None] = []
    known = KnownCommit(7)
    known.then(told.append)
    assert (known.txn, known.wait(), told) == (7, 7, [None])
    following = PendingCommit(clock_commit(8), log=log)
    assert KnownCommit(7, following).wait() == 7
    assert following.done
