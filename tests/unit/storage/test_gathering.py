"""Who is waited for before an entry of the log is written, for how long, and who leads then."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import DeadlineExceeded
from stele.storage import group_commit
from stele.storage.gathering import LEFT_OUT, PAUSE_S, Gathering
from stele.storage.group_commit import GroupCommit, LogEvents
from stele.storage.log_queue import Gate, Ticket
from stele.storage.log_reader import LogReader
from tests.unit.storage.log_support import DIRECTORY, new_writer, read, rows

JOIN_TIMEOUT_S = 60


def new_gathering(expected: int) -> Gathering:
    found = Gathering()
    found.expect(expected)
    return found


def looks(gathering: Gathering, *lengths: int) -> list[bool]:
    """What a watcher hears when the queue has these lengths."""
    return [gathering.is_over(length) for length in lengths]


def test_who_expects_nobody_else_does_not_wait() -> None:
    assert looks(new_gathering(1), 1) == [True]


def test_as_long_as_somebody_comes_the_others_are_waited_for() -> None:
    assert looks(new_gathering(8), 1, 2, 4, 4) == [False, False, False, True]


def test_after_one_in_vain_the_next_leaders_do_not_wait() -> None:
    gathering = new_gathering(8)
    assert looks(gathering, 1, 1) == [False, True]
    for _ in range(LEFT_OUT):
        gathering.expect(8)
        assert looks(gathering, 1) == [True]
    gathering.expect(8)
    assert looks(gathering, 1, 2, 8) == [False, False, True]


def test_whoever_completes_a_group_that_is_watched_takes_it_over_once() -> None:
    gathering = new_gathering(3)
    assert not gathering.take_over(3), "nobody watches"
    gathering.watcher = Ticket(rows(1))
    assert not gathering.take_over(2)
    assert gathering.take_over(3)
    assert not gathering.take_over(4), "nobody watches any more"


class Writers:
    """Threads that commit to one log, and who led each of its entries."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.leaders: list[int] = []
        self.log = GroupCommit(
            new_writer(self.fs), LogEvents(fence=self._note), clock=MemoryClock()
        )
        self._order = threading.Lock()
        self._txn = 0

    def _note(self) -> None:
        self.leaders.append(threading.get_ident())

    def append(self) -> Ticket:
        with self._order:
            self._txn += 1
            return self.log.append(rows(self._txn), will_wait=True)

    def expect(self, count: int) -> None:
        """As after an entry of so many."""
        self.log._gathering.expect(count)

    def start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def watching(self) -> tuple[Ticket, threading.Thread]:
        """A thread that watches, because others are to come."""
        ticket = self.append()
        thread = self.start(lambda: self.log.wait(ticket))
        while self.log._gathering.watcher is not ticket and not ticket.done:
            pass
        return ticket, thread

    def commits_per_entry(self) -> list[int]:
        return [entry.header.commits for entry in LogReader(self.fs, DIRECTORY).entries()]


def test_the_last_to_come_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "PAUSE_S", JOIN_TIMEOUT_S)
    writers = Writers()
    writers.expect(3)
    first, watcher = writers.watching()
    second = writers.append()
    behind = writers.start(lambda: writers.log.wait(second))
    while second.gate is None:
        pass
    assert writers.leaders == []
    writers.log.wait(writers.append())
    for thread in (watcher, behind):
        thread.join(JOIN_TIMEOUT_S)
    assert first.done
    assert second.done
    assert writers.leaders == [threading.get_ident()]
    assert writers.commits_per_entry() == [3]


def test_who_watches_in_vain_leads() -> None:
    writers = Writers()
    writers.expect(3)
    writers.log.wait(writers.append())
    assert writers.log._gathering.watcher is None
    assert writers.log._gathering._left_out == LEFT_OUT, "it did watch"
    assert writers.leaders == [threading.get_ident()]


def test_a_commit_that_nobody_waits_for_completes_a_group_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "PAUSE_S", JOIN_TIMEOUT_S)
    writers = Writers()
    writers.expect(2)
    first, watcher = writers.watching()
    heard = threading.Event()
    writers.log.append(rows(2), lambda _ticket: heard.set())
    assert heard.wait(JOIN_TIMEOUT_S / 2)
    watcher.join(JOIN_TIMEOUT_S)
    assert first.done
    assert writers.commits_per_entry() == [2]


def test_closing_does_not_wait_for_those_who_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "PAUSE_S", 0.5)
    writers = Writers()
    writers.expect(9)
    first, watcher = writers.watching()
    writers.log.close()
    watcher.join(JOIN_TIMEOUT_S)
    assert first.done
    assert writers.commits_per_entry() == [1, 0]


def test_those_who_come_back_share_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads that commit again and again: once they have met, all go together."""
    monkeypatch.setattr(group_commit, "PAUSE_S", 1.0)
    count, rounds = 8, 40
    writers = Writers()
    writers.expect(count)

    def work() -> None:
        for _ in range(rounds):
            writers.log.wait(writers.append())

    for thread in [writers.start(work) for _ in range(count)]:
        thread.join(JOIN_TIMEOUT_S)
    sizes = writers.commits_per_entry()
    assert sum(sizes) == rounds * count
    assert sizes.count(count) >= rounds // 4, sizes


def test_a_deadline_of_who_was_overtaken_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    writers = Writers()
    overtaken, allowed = threading.Event(), threading.Event()

    def slow() -> None:
        overtaken.set()
        assert allowed.wait(JOIN_TIMEOUT_S)

    writers.log._events = LogEvents(fence=slow)
    clock = writers.log._clock = MemoryClock()
    timeouts: list[float | None] = []
    writers.expect(2)
    first = writers.append()
    passed = group_commit._passed
    others: list[threading.Thread] = []

    def pause(gate: Gate, timeout_s: float | None) -> bool:
        timeouts.append(timeout_s)
        if timeout_s == PAUSE_S and not others:
            clock.advance(JOIN_TIMEOUT_S * 1_000_000)
            others.append(writers.start(lambda: writers.log.wait(writers.append())))
            assert overtaken.wait(JOIN_TIMEOUT_S)
        return passed(gate, timeout_s)

    monkeypatch.setattr(group_commit, "_passed", pause)
    with pytest.raises(DeadlineExceeded):
        writers.log.wait(first, timeout_us=JOIN_TIMEOUT_S * 1_000_000)
    assert timeouts == [PAUSE_S, 0], "time spent watching counts"
    allowed.set()
    others[0].join(JOIN_TIMEOUT_S)
    assert first.done
    assert writers.commits_per_entry() == [2]


class Signal(BaseException):
    """Like ``KeyboardInterrupt``, and nobody else's."""


@pytest.mark.parametrize("place", ["_pauses", "_look_again"])
@pytest.mark.parametrize("overtaken", [False, True])
def test_a_watcher_that_is_interrupted_leaves_nobody_behind(
    monkeypatch: pytest.MonkeyPatch, overtaken: bool, place: str
) -> None:
    """Also those who wait behind it, for the lead or to be woken by it."""
    writers = Writers()
    allowed, written = threading.Event(), threading.Event()

    def slow() -> None:
        written.set()
        assert allowed.wait(JOIN_TIMEOUT_S)

    writers.log._events = LogEvents(fence=slow)
    writers.expect(3)
    first, second = writers.append(), writers.append()
    others: list[threading.Thread] = []

    def interrupted(*_arguments: object) -> bool:
        if threading.current_thread() is threading.main_thread():
            monkeypatch.undo()
            others.append(writers.start(lambda: writers.log.wait(second)))
            while second.gate is None:
                pass
            if overtaken:
                others.append(writers.start(lambda: writers.log.wait(writers.append())))
                assert written.wait(JOIN_TIMEOUT_S)
                allowed.set()
                while first.successor is None:
                    pass
            raise Signal
        return False

    monkeypatch.setattr(writers.log, place, interrupted)
    with pytest.raises(Signal):
        writers.log.wait(first)
    allowed.set()
    for thread in others:
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive()
    assert first.done
    assert second.done
    assert read(writers.fs) == list(range(1, 3 + overtaken))
