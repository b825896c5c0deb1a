"""Group commit: everybody is told once and truly, whoever does the work."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory import MemoryClock, MemoryTasks
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    DeadlineExceeded,
    OutOfSpace,
    SteleError,
    StorageFailed,
    TabletNotServing,
    Unavailable,
)
from stele.storage import group_commit
from stele.storage.group_commit import GroupCommit, LogEvents
from stele.storage.log_parts import release_commit
from stele.storage.log_queue import Gate, QueueState, Ticket
from stele.storage.log_reader import LogReader
from stele.storage.log_seal import seal, seal_fence
from stele.storage.log_segments import first_needed_file, released_files
from stele.storage.log_writer import AFTER_SYNC, AFTER_WRITE
from stele.storage.memory_budget import Admission
from tests.unit.storage.log_support import DIRECTORY, TABLE, new_writer, read, recover, rows

JOIN_TIMEOUT_S = 60


def new_log(
    fs: MemoryFileSystem, events: LogEvents | None = None, *, roll_bytes: int = 1 << 20
) -> GroupCommit:
    return GroupCommit(new_writer(fs, roll_bytes=roll_bytes), events, clock=MemoryClock())


def commits_per_entry(fs: MemoryFileSystem) -> list[int]:
    return [entry.header.commits for entry in LogReader(fs, DIRECTORY).entries()]


class Jobs:
    """Runs background jobs when told to, one at a time."""

    def __init__(self) -> None:
        self._tasks = MemoryTasks(MemoryClock())

    def spawn(self, job: Callable[[], None]) -> None:
        self._tasks.spawn("log", job)

    def run(self) -> int:
        return self._tasks.run_ready()


def test_a_lone_thread_leads_by_itself() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)
    for txn in (1, 2):
        log.wait(log.append(rows(txn)))
    assert commits_per_entry(fs) == [1, 1]
    assert read(fs.crash_image()) == [1, 2]


def test_what_is_queued_goes_into_one_entry() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)
    tickets = [log.append(rows(txn)) for txn in range(1, 6)]
    assert not any(ticket.done for ticket in tickets)
    log.wait(tickets[2])
    assert all(ticket.done for ticket in tickets)
    assert commits_per_entry(fs) == [5]


def test_who_is_not_in_the_first_group_leads_until_it_is_done() -> None:
    fs = MemoryFileSystem()
    log = GroupCommit(new_writer(fs), group_bytes_max=1, clock=MemoryClock())
    tickets = [log.append(rows(txn)) for txn in range(1, 4)]
    log.wait(tickets[1])
    assert [ticket.done for ticket in tickets] == [True, True, False]
    log.drive()
    assert tickets[2].done
    assert log.queued_bytes == 0


def test_many_threads_share_entries_and_all_are_durable() -> None:
    fs = MemoryFileSystem()
    durable: list[int] = []
    log = new_log(fs, LogEvents(on_durable=durable.append), roll_bytes=8 * 1024)
    order = threading.Lock()
    txn = 0
    unsafe: list[int] = []

    def work() -> None:
        nonlocal txn
        for _ in range(50):
            with order:
                txn += 1
                ticket = log.append(rows(txn), will_wait=True)
            log.wait(ticket)
            if not durable or durable[-1] < ticket.txn:
                unsafe.append(ticket.txn)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert unsafe == []
    assert durable == sorted(durable)
    assert read(fs.crash_image()) == list(range(1, 801))


def blocked_sync(fs: MemoryFileSystem) -> tuple[GroupCommit, threading.Event, threading.Event]:
    """A log whose first entry stays in its sync until allowed to go on."""
    entered, allowed = threading.Event(), threading.Event()

    def fence() -> None:
        entered.set()
        assert allowed.wait(JOIN_TIMEOUT_S)

    return new_log(fs, LogEvents(fence=fence)), entered, allowed


def test_the_lead_goes_to_the_first_who_waits() -> None:
    fs = MemoryFileSystem()
    log, entered, allowed = blocked_sync(fs)
    first = threading.Thread(target=lambda: log.wait(log.append(rows(1), will_wait=True)))
    first.start()
    assert entered.wait(JOIN_TIMEOUT_S)
    tickets = [log.append(rows(txn), will_wait=True) for txn in range(2, 8)]
    others = [threading.Thread(target=log.wait, args=(ticket,)) for ticket in tickets]
    for thread in others:
        thread.start()
    while any(ticket.gate is None for ticket in tickets):
        pass
    allowed.set()
    for thread in (first, *others):
        thread.join(JOIN_TIMEOUT_S)
    assert all(ticket.done for ticket in tickets)
    assert commits_per_entry(fs) == [1, 6]


def test_a_deadline_says_nothing_and_harms_nobody() -> None:
    fs = MemoryFileSystem()
    log, entered, allowed = blocked_sync(fs)
    leader = threading.Thread(target=lambda: log.wait(log.append(rows(1), will_wait=True)))
    leader.start()
    assert entered.wait(JOIN_TIMEOUT_S)
    late = log.append(rows(2), will_wait=True)
    with pytest.raises(DeadlineExceeded, match="commit 2"):
        log.wait(late, timeout_us=1_000)
    allowed.set()
    leader.join(JOIN_TIMEOUT_S)
    log.wait(late)
    assert read(fs) == [1, 2]


def test_deadlines_of_many_threads_lose_no_wake_up() -> None:
    """Threads give up at every moment of the hand-over; all commits get done all the same."""
    fs = MemoryFileSystem()
    never = threading.Event()

    def slow_disk() -> None:
        never.wait(0.0003)

    log = new_log(fs, LogEvents(fence=slow_disk), roll_bytes=8 * 1024)
    order = threading.Lock()
    txn = 0
    late = [0]

    def work(number: int) -> None:
        nonlocal txn
        for turn in range(60):
            with order:
                txn += 1
                ticket = log.append(rows(txn), will_wait=True)
            try:
                log.wait(ticket, timeout_us=None if turn % 3 else 100 * number)
            except DeadlineExceeded:
                late[0] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert late[0] > 0
    log.close()
    assert read(fs) == list(range(1, 721))


class Signal(BaseException):
    """What a signal handler raises in a thread that is blocked."""


@pytest.mark.parametrize("chosen", [False, True])
def test_a_thread_that_is_interrupted_leaves_nobody_behind(
    monkeypatch: pytest.MonkeyPatch, chosen: bool
) -> None:
    """Also when it has just been chosen to lead: then it chooses another."""
    fs = MemoryFileSystem()
    log, entered, allowed = blocked_sync(fs)
    leader = threading.Thread(target=lambda: log.wait(log.append(rows(1), will_wait=True)))
    leader.start()
    assert entered.wait(JOIN_TIMEOUT_S)
    tickets = [log.append(rows(txn), will_wait=True) for txn in (2, 3, 4)]
    waiting = [threading.Thread(target=log.wait, args=(ticket,)) for ticket in tickets[1:]]
    for thread in waiting:
        thread.start()
    while any(ticket.gate is None for ticket in tickets[1:]):
        pass

    def interrupted(gate: Gate, timeout_s: float | None) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return passed(gate, timeout_s)
        if chosen:
            allowed.set()
            leader.join(JOIN_TIMEOUT_S)
        raise Signal

    passed = group_commit._passed
    monkeypatch.setattr(group_commit, "_passed", interrupted)
    with pytest.raises(Signal):
        log.wait(tickets[0])
    allowed.set()
    for thread in (leader, *waiting):
        thread.join(JOIN_TIMEOUT_S)
    assert not any(thread.is_alive() for thread in waiting)
    assert read(fs) == [1, 2, 3, 4]


def test_callbacks_need_no_thread_of_the_caller() -> None:
    fs = MemoryFileSystem()
    jobs = Jobs()
    log = GroupCommit(new_writer(fs), spawn=jobs.spawn, clock=MemoryClock())
    told: list[int] = []

    def tell(ticket: Ticket) -> None:
        assert ticket.error is None
        told.append(ticket.txn)

    for txn in (1, 2, 3):
        log.append(rows(txn), tell)
    assert told == []
    assert jobs.run() == 1
    assert told == [1, 2, 3]
    assert commits_per_entry(fs) == [3]


@pytest.mark.parametrize("will_wait", [False, True])
def test_one_job_serves_callbacks_that_commit_again(will_wait: bool) -> None:
    fs = MemoryFileSystem()
    jobs = Jobs()
    log = GroupCommit(new_writer(fs), spawn=jobs.spawn, clock=MemoryClock())

    def again(ticket: Ticket) -> None:
        if ticket.txn < 10:
            log.append(rows(ticket.txn + 1), again, will_wait=will_wait)

    log.append(rows(1), again)
    assert jobs.run() == 1
    assert read(fs) == list(range(1, 11))
    log.append(rows(11))
    assert jobs.run() == 1


def test_driving_goes_on_for_what_callbacks_commit() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)

    def again(ticket: Ticket) -> None:
        if ticket.txn < 10:
            log.append(rows(ticket.txn + 1), again)

    log.append(rows(1), again)
    log.drive()
    assert read(fs) == list(range(1, 11))
    log.drive()
    log.close()


def test_commits_that_nobody_waits_for_are_written_too() -> None:
    fs = MemoryFileSystem()
    jobs = Jobs()
    log = GroupCommit(new_writer(fs), spawn=jobs.spawn, clock=MemoryClock())
    log.append(rows(1))
    jobs.run()
    assert read(fs) == [1]


def test_a_thread_leaves_the_callbacks_of_others_to_a_job() -> None:
    fs = MemoryFileSystem()
    jobs = Jobs()
    log = GroupCommit(new_writer(fs), spawn=jobs.spawn, group_bytes_max=1, clock=MemoryClock())
    own = log.append(rows(1), will_wait=True)
    other = log.append(rows(2), will_wait=True)
    log.wait(own)
    assert not other.done
    assert jobs.run() == 1
    assert other.done


def test_durable_is_told_before_the_tickets_are_done() -> None:
    seen: list[tuple[int, bool]] = []
    tickets: list[Ticket] = []
    log = new_log(
        MemoryFileSystem(),
        LogEvents(on_durable=lambda txn: seen.append((txn, tickets[0].done))),
    )
    tickets.append(log.append(rows(7)))
    log.wait(tickets[0])
    assert seen == [(7, False)]


def test_after_a_failed_sync_nothing_is_acknowledged_ever() -> None:
    faults = Faults(Fault(Failure.EIO, 5, kinds={Call.SYNC}))
    fs = MemoryFileSystem(faults=faults)
    dead: list[SteleError] = []
    log = new_log(fs, LogEvents(on_dead=dead.append))
    acked = []
    for txn in range(1, 20):
        try:
            tickets = [log.append(rows(2 * txn)), log.append(rows(2 * txn + 1))]
            log.wait(tickets[1])
        except StorageFailed:
            continue
        acked.append(txn)
    assert acked == list(range(1, len(acked) + 1))
    assert log.state is QueueState.DEAD
    assert len(dead) == 1
    log.close()
    assert set(range(2, 2 * len(acked) + 2)) <= set(read(fs.crash_image()))


def test_everybody_in_line_hears_of_a_failure() -> None:
    faults = Faults(Fault(Failure.EIO, 2, kinds={Call.SYNC}))
    log = GroupCommit(
        new_writer(MemoryFileSystem(faults=faults)), group_bytes_max=1, clock=MemoryClock()
    )
    told: list[SteleError | None] = []
    tickets = [log.append(rows(txn), lambda t: told.append(t.error)) for txn in (1, 2, 3)]
    with pytest.raises(StorageFailed):
        log.wait(tickets[1])
    assert [type(error) for error in told] == [StorageFailed] * 3
    with pytest.raises(StorageFailed):
        log.append(rows(4))


def test_a_full_disk_fails_what_is_queued_and_no_more() -> None:
    faults = Faults(Fault(Failure.ENOSPC, 4, kinds={Call.WRITE}))
    fs = MemoryFileSystem(faults=faults)
    log = GroupCommit(new_writer(fs), group_bytes_max=1, clock=MemoryClock())
    log.wait(log.append(rows(1)))
    tickets = [log.append(rows(txn)) for txn in (2, 3, 4)]
    with pytest.raises(OutOfSpace):
        log.wait(tickets[1])
    assert [ticket.error is None for ticket in tickets] == [True, False, False]
    log.wait(log.append(rows(5)))
    assert read(fs.crash_image()) == [1, 2, 5]


def test_after_a_full_disk_nothing_is_taken_until_the_owner_says_so() -> None:
    faults = Faults(Fault(Failure.ENOSPC, 2, kinds={Call.WRITE}))
    refused: list[OutOfSpace] = []
    log = new_log(MemoryFileSystem(faults=faults), LogEvents(on_refused=refused.append))
    ticket = log.append(rows(1))
    with pytest.raises(OutOfSpace):
        log.wait(ticket)
    assert len(refused) == 1
    with pytest.raises(OutOfSpace):
        log.append(rows(2))
    log.resume()
    log.wait(log.append(rows(3)))


def test_the_owner_hears_of_a_full_disk_before_the_callers_do() -> None:
    faults = Faults(Fault(Failure.ENOSPC, 2, kinds={Call.WRITE}))
    story: list[str] = []

    def forget(_error: OutOfSpace) -> None:
        story.append("owner")
        log.resume()

    log = new_log(MemoryFileSystem(faults=faults), LogEvents(on_refused=forget))
    ticket = log.append(rows(1), lambda _ticket: story.append("caller"))
    with pytest.raises(OutOfSpace):
        log.wait(ticket)
    assert story == ["owner", "caller"]
    log.wait(log.append(rows(2)))


def test_a_sealed_log_acknowledges_nothing() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs, LogEvents(fence=seal_fence(fs, DIRECTORY)))
    log.wait(log.append(rows(1)))

    def seal_meanwhile(_name: str) -> None:
        seal(fs.attached(), DIRECTORY, "test")

    with armed(AFTER_SYNC, seal_meanwhile, hit=1):
        ticket = log.append(rows(2))
        with pytest.raises(TabletNotServing, match="sealed"):
            log.wait(ticket)
    with pytest.raises(TabletNotServing):
        log.append(rows(3))
    assert 1 in recover(fs)


def test_an_interrupted_leader_fails_all_others() -> None:
    log = new_log(MemoryFileSystem())
    tickets = [log.append(rows(txn)) for txn in (1, 2)]
    with armed(AFTER_WRITE, crash()), pytest.raises(SimulatedCrash):
        log.wait(tickets[0])
    with pytest.raises(StorageFailed, match="interrupted"):
        log.wait(tickets[1])
    assert log.state is QueueState.DEAD


def test_closing_writes_what_is_queued_and_the_end() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)
    ticket = log.append(rows(1))
    log.close()
    assert ticket.done
    assert [entry.header.is_last for entry in LogReader(fs, DIRECTORY).entries()] == [False, True]
    log.close()
    with pytest.raises(Unavailable, match="closed"):
        log.append(rows(2))


def test_closing_on_a_full_disk_leaves_a_log_without_its_end() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.ENOSPC, 3, kinds={Call.WRITE})))
    log = new_log(fs)
    log.wait(log.append(rows(1)))
    log.close()
    assert commits_per_entry(fs) == [1]
    assert log.state is QueueState.CLOSED


def test_files_are_released_in_the_log_before_they_go() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1_024)
    log = GroupCommit(writer, clock=MemoryClock())
    for txn in range(1, 5):
        log.wait(log.append(rows(txn, value=bytes(1_000))))
    assert [facts.sequence for facts in log.files] == [1, 2, 3, 4]
    first_needed = first_needed_file(log.files, {TABLE: 2})
    assert first_needed == 3
    log.wait(log.append(release_commit(5, first_needed)))
    assert writer.spares.keep_or_delete(released_files(fs, DIRECTORY, first_needed)) == [1, 2]
    log.forget_files(first_needed)
    assert [facts.sequence for facts in log.files] == [3, 4, 5]
    assert read(fs.crash_image()) == [3, 4]
    assert read(fs) == [3, 4]


def test_the_queue_admits_in_turn() -> None:
    log = GroupCommit(new_writer(MemoryFileSystem()), queue_bytes_max=10, clock=MemoryClock())
    granted: list[Admission] = []
    first = log.admit(8)
    second = log.admit(8, granted.append)
    third = log.admit(1, granted.append)
    assert (first.granted, second.granted, third.granted) == (True, False, False)
    log.leave(first)
    assert granted == [second, third]
