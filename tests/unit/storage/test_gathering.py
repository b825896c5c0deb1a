"""Who is waited for before an entry of the log is written, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from stele.env.memory_fs import MemoryFileSystem
from stele.storage import gathering
from stele.storage.gathering import LEFT_OUT, Gathering
from stele.storage.group_commit import GroupCommit, LogEvents
from stele.storage.log_reader import LogReader
from tests.unit.storage.log_support import DIRECTORY, new_writer, rows

JOIN_TIMEOUT_S = 60


class Counted:
    """A queue's length, which goes through given values, one for each look."""

    def __init__(self, *lengths: int) -> None:
        self._lengths = [*lengths]
        self.looks = 0

    def __call__(self) -> int:
        self.looks += 1
        return self._lengths[min(self.looks, len(self._lengths)) - 1]


def new_gathering(expected: int) -> Gathering:
    found = Gathering(threading.Lock())
    found.expect(expected)
    return found


def test_who_expects_nobody_else_does_not_wait() -> None:
    queued = Counted(1)
    new_gathering(1).wait(queued)
    assert queued.looks == 1


def test_as_long_as_somebody_comes_the_others_are_waited_for() -> None:
    queued = Counted(1, 2, 4, 4, 5)
    new_gathering(8).wait(queued)
    assert queued.looks == 4, "nobody came between the third look and the fourth"


def test_after_one_in_vain_the_next_leaders_do_not_wait() -> None:
    gathered = new_gathering(8)
    gathered.wait(Counted(1))
    for _ in range(LEFT_OUT):
        queued = Counted(1, 2, 3)
        gathered.wait(queued)
        assert queued.looks == 1
    queued = Counted(1, 2, 8)
    gathered.wait(queued)
    assert queued.looks == 3


def test_the_last_to_come_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "PAUSE_S", JOIN_TIMEOUT_S)
    lock = threading.Lock()
    gathered = Gathering(lock)
    gathered.expect(3)
    looked = threading.Event()

    def queued() -> int:
        looked.set()
        return 1

    leader = threading.Thread(target=gathered.wait, args=(queued,))
    leader.start()
    assert looked.wait(JOIN_TIMEOUT_S)
    for count in (2, 3):
        assert leader.is_alive()
        with lock:
            gathered.arrived(count)
    leader.join(JOIN_TIMEOUT_S / 2)
    assert not leader.is_alive()


def test_those_who_come_back_share_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads that commit again and again: once they have met, all go together."""
    monkeypatch.setattr(gathering, "PAUSE_S", 1.0)
    fs = MemoryFileSystem()
    writers, rounds = 8, 40
    log: GroupCommit

    def until_all_have_come() -> None:
        while not has_met.is_set():
            if log.queued_bytes >= writers * size:
                has_met.set()

    has_met = threading.Event()
    log = GroupCommit(new_writer(fs), LogEvents(fence=until_all_have_come))
    order = threading.Lock()
    txn, size = 0, rows(1).size

    def work() -> None:
        nonlocal txn
        for _ in range(rounds):
            with order:
                txn += 1
                ticket = log.append(rows(txn), will_wait=True)
            log.wait(ticket)

    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_TIMEOUT_S)
    sizes = [entry.header.commits for entry in LogReader(fs, DIRECTORY).entries()]
    assert sum(sizes) == rounds * writers
    assert sizes.count(writers) >= rounds // 4, sizes


class Signal(BaseException):
    """Like ``KeyboardInterrupt``, and nobody else's."""


def test_a_leader_that_is_interrupted_while_it_gathers_leaves_nobody_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = MemoryFileSystem()
    log = GroupCommit(new_writer(fs))
    first, second = log.append(rows(1)), log.append(rows(2))

    def interrupted(_queued: Callable[[], int]) -> None:
        raise Signal

    with monkeypatch.context() as patch:
        patch.setattr(Gathering, "wait", lambda _self, queued: interrupted(queued))
        with pytest.raises(Signal):
            log.wait(first)
    log.wait(second)
    assert first.done
