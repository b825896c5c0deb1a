"""Group commit: many commits, one sync.

Whoever finds the log idle leads: it writes everything that waits as one entry, syncs, wakes those
whose commits are in it, and hands the lead to the first of those who came meanwhile. No thread of
its own, so a lone writer pays one sync and no hand-over; under load each sync carries everything
that arrived during the one before, and those who come back from it (``stele.storage.gathering``).

There are two ways to use it, and they mix:

* *blocking threads*: ``wait(append(commit))``. The caller may become the leader.
* *events*: ``append(commit, callback)``, with ``spawn`` given to the log. Nothing in the caller
  blocks; a job that ``spawn`` starts leads, and the callback is called from there.

After each sync and before anything is acknowledged the *fence* is asked whether this log is still
ours (no ``SEALED``, lease not over); it answers by raising if not.

What happens when something fails is in ``stele.storage.log_queue``: a full disk fails all that is
queued, then ``on_refused`` is called, whose owner takes the failed commits out of memory and calls
``resume``; anything else ends the log for good, and ``on_dead`` is called.

Threads: everything here is safe to call from any thread. Callbacks run without the lock held, in
the leader's thread. ``on_durable`` comes before the tickets of the same entry are done, and in the
order of the entries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from stele.env.interrupts import Uninterrupted, is_main_thread
from stele.env.ports import Clock
from stele.errors import DeadlineExceeded, OutOfSpace, SteleError, StorageFailed
from stele.storage.gathering import PAUSE_S, Gathering
from stele.storage.log_parts import Commit
from stele.storage.log_queue import GROUP_BYTES_MAX, Gate, LogQueue, QueueState, Ticket
from stele.storage.log_segments import FileFacts, FileLedger, Written
from stele.storage.log_writer import LogWriter
from stele.storage.memory_budget import Admission, MemoryBudget

QUEUE_BYTES_DEFAULT = 64 * 1024 * 1024
"""Commits that may wait for the log, all together, before ``admit`` makes their callers wait."""

WAKE_CHAINS = 1
"""Woken threads wake the next themselves. All at once, they only fight for the interpreter lock."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class LogEvents:
    """What the owner of a log is told. Called without any lock, in the thread that leads."""

    fence: Callable[[], None] = _nothing
    """Asked after each sync, before anything is acknowledged. Raises if the log is not ours."""
    on_durable: Callable[[int], None] = lambda _txn: None
    """All commits up to this txn are durable."""
    on_refused: Callable[[OutOfSpace], None] | None = None
    """The disk is full and all commits above the last durable txn failed. Forget them, then call
    ``resume``. Without a callback the log resumes by itself: for an owner that remembers nothing
    before it is durable."""
    on_dead: Callable[[SteleError], None] = lambda _error: None
    """The log has ended. A server exits."""


class _Lead(Enum):
    """Whose the lead is after an entry."""

    OURS = "ours"
    THEIRS = "a waiting thread's"
    A_JOBS = "a new job's"
    NOBODYS = "nobody's"


class _Following(NamedTuple):
    """What comes after an entry: who leads, and which gates to open now."""

    lead: _Lead
    gates: list[Gate]


_NOBODY = _Following(_Lead.NOBODYS, [])


class GroupCommit:
    """A log that any number of threads and callbacks commit to."""

    def __init__(
        self,
        writer: LogWriter,
        events: LogEvents | None = None,
        *,
        spawn: Callable[[Callable[[], None]], None] | None = None,
        clock: Clock,
        group_bytes_max: int = GROUP_BYTES_MAX,
        queue_bytes_max: int = QUEUE_BYTES_DEFAULT,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._events = events or LogEvents()
        self._spawn = spawn
        self._lock = threading.Lock()
        """Guards all below. Never held during I/O or callbacks."""
        self._queue = LogQueue(group_bytes_max)
        self._gathering = Gathering()
        self._ledger = FileLedger()
        self._budget = MemoryBudget(queue_bytes_max)
        self._led = False
        """Somebody leads, or watches and may: only they may touch the writer."""
        self._job_runs = False
        """A job looks into the queue once more before it ends."""

    # Admission.

    def admit(self, size: int, callback: Callable[[Admission], None] | None = None) -> Admission:
        """Ask for room in the queue before committing ``size`` bytes; see ``MemoryBudget``."""
        with self._lock:
            return self._budget.request(size, callback)

    def leave(self, admission: Admission) -> None:
        """The commit is done, or was never made: let others in."""
        with self._lock:
            granted = self._budget.release(admission)
        for other in granted:
            if other.callback is not None:
                other.callback(other)

    # Committing.

    def append(
        self,
        commit: Commit,
        *callbacks: Callable[[Ticket], None],
        will_wait: bool = False,
    ) -> Ticket:
        """Queue a commit; txns rise from call to call. Does not block and does no I/O.

        It is written soon if the log can spawn jobs; else when somebody waits or drives. A thread
        that says it ``will_wait`` leads by itself then, which saves starting a job.

        Raises if nothing is taken now: ``OutOfSpace`` after a full disk and before ``resume``,
        ``Unavailable`` when closed, or what ended the log.
        """
        ticket = Ticket(commit)
        if callbacks:
            ticket.callbacks = callbacks
        self.push(ticket)
        if not will_wait:
            self.start()
        return ticket

    def push(self, ticket: Ticket) -> None:
        """Queue a commit that its caller is about to wait for; see :meth:`append`."""
        with self._lock:
            self._queue.push(ticket)

    def then(self, ticket: Ticket, callback: Callable[[Ticket], None]) -> bool:
        """Call back when a ticket is done; False, and no call, if it is already."""
        with self._lock:
            if ticket.done:
                return False
            ticket.callbacks = (*ticket.callbacks, callback)
        self.start()
        return True

    def wait(self, ticket: Ticket, timeout_us: int | None = None) -> None:
        """Return when the commit is durable, or raise why it is not.

        ``DeadlineExceeded`` says nothing about the outcome. A thread that leads finishes its entry
        before it looks at the time. Only one thread may wait for a ticket. An interrupt from the
        keyboard is heard at the end: nobody else writes what a leader leaves behind.
        """
        if is_main_thread():
            with Uninterrupted():
                self._wait(ticket, timeout_us)
        else:
            self._wait(ticket, timeout_us)
        if ticket.error is not None:
            raise copy(ticket.error) from ticket.error

    def _wait(self, ticket: Ticket, timeout_us: int | None) -> None:
        until_us = None if timeout_us is None else self._clock.monotonic_us() + timeout_us
        with self._lock:
            assert ticket.gate is None, "somebody waits for this ticket already"
            if ticket.done:
                return
            may_lead = not self._led or self._gathering.take_over(len(self._queue))
            self._led = True
            gate = self._watch(ticket) if may_lead else _close_gate(ticket)
        try:
            while gate is not None:
                if self._pauses(gate, ticket):
                    gate = self._look_again(gate, ticket)
                    continue
                if self._done_behind(gate, ticket, until_us):
                    return
                with self._lock:
                    gate = self._watch(ticket)
        except (
            BaseException
        ):  # the time is over, or a signal came: nobody may wait for who has left
            self._leave_line(ticket)
            raise
        while not ticket.done:
            self._lead(ticket)

    def _done_behind(self, gate: Gate, ticket: Ticket, until_us: int | None) -> bool:
        """Block until the ticket is done; False if the lead is ours before."""
        left_s = None
        if until_us is not None:
            left_s = max(until_us - self._clock.monotonic_us(), 0) / 1_000_000
        if not _passed(gate, left_s) and not self._is_reached(ticket):
            raise DeadlineExceeded(f"commit {ticket.txn} was not durable in time")
        ticket.gate = None
        _open_next(ticket)
        return ticket.done

    # Letting those come first who come back from the entry before: see ``stele.storage.gathering``.

    def _watch(self, ticket: Ticket) -> Gate | None:
        """We have the lead: leave it to whoever comes last, or keep it, without a gate, if nobody
        else is to come. The lock is held."""
        gathering = self._gathering
        if gathering.is_over(len(self._queue)):
            gathering.watcher = ticket.gate = None
            ticket.leads = True
            return None
        gathering.watcher = ticket
        return ticket.gate or _close_gate(ticket)

    def _pauses(self, gate: Gate, ticket: Ticket) -> bool:
        """Whether we watched for a moment, and our commit did not become durable in it."""
        if self._gathering.watcher is not ticket:
            return False
        passed = _passed(gate, PAUSE_S)
        if passed:
            gate.release()  # what there is to do behind it is done in one place
        return not passed

    def _look_again(self, gate: Gate, ticket: Ticket) -> Gate | None:
        """Whom else to wait for, after a pause in which somebody may have taken the lead."""
        with self._lock:
            return self._watch(ticket) if self._gathering.watcher is ticket else gate

    def _is_reached(self, ticket: Ticket) -> bool:
        """Whether the gate was about to open when the time was over; if not, nobody opens it."""
        with self._lock:
            ticket.gate = None
            return ticket.done or ticket.leads

    def _leave_line(self, ticket: Ticket) -> None:
        """Stop waiting, and hand on what we had, or what was about to come through the gate."""
        following = _NOBODY
        with self._lock:
            ticket.gate = None
            has_lead = ticket.leads or self._gathering.watcher is ticket
            if has_lead and not ticket.done:
                self._gathering.watcher = None
                following = self._choose_leader(may_lead=False)
        _open_next(ticket)
        self._wake((), following)

    def drive(self) -> None:
        """Write what is queued, if nobody else is about to. Blocks for the I/O."""
        with self._lock:
            if self._led or self._job_runs or not len(self._queue):
                return
            self._led = self._job_runs = True
        self._lead_on()

    def start(self) -> None:
        """See to it that what is queued is written soon: start a job, unless somebody leads."""
        with self._lock:
            watcher = self._gathering.watcher
            if watcher is not None and self._gathering.take_over(len(self._queue)):
                assert watcher.gate is not None
                watcher.leads = True
                watcher.gate.release()
            if self._led or self._job_runs or not len(self._queue) or self._spawn is None:
                return
            self._led = self._job_runs = True
        self._spawn(self._lead_on)

    def resume(self) -> None:
        """After a full disk: the failed commits are forgotten, new ones may come."""
        with self._lock:
            self._queue.resume()

    def close(self) -> None:
        """Write what is queued and end the log. Later appends are refused. Idempotent."""
        with self._lock:
            ticket = self._queue.close()
        if ticket is None:
            return
        with suppress(OutOfSpace):  # without its end the log is as good, only less certain
            self.wait(ticket)
        self._writer.abandon()

    # Files.

    @property
    def files(self) -> tuple[FileFacts, ...]:
        """The files that are there, with what is durable in them."""
        with self._lock:
            return self._ledger.files

    def forget_files(self, first_needed: int) -> None:
        """The files below have been deleted."""
        with self._lock:
            self._ledger.forget(first_needed)

    @property
    def state(self) -> QueueState:
        return self._queue.state

    @property
    def queued_bytes(self) -> int:
        """What is waiting to be written, or being written."""
        return self._queue.queued_bytes

    # Leading. Whoever is here is alone, and the only one to touch the writer.

    def _lead_on(self) -> None:
        """The job: lead until nobody is left, or until a waiting thread takes over.

        Callbacks may have queued something while nobody led, so it looks again before it ends.
        """
        leads = True
        while leads:
            while self._lead(None):
                pass
            with self._lock:
                leads = not self._led and len(self._queue) > 0
                self._led |= leads
                self._job_runs = leads

    def _lead(self, own: Ticket | None) -> bool:
        """Write one entry and settle its tickets. Returns whether the lead is still ours.

        A thread that leads for its ``own`` ticket keeps the lead until that is done, and no longer.
        """
        with self._lock:
            group = self._queue.take()
        try:
            written = self._write(group)
        except OutOfSpace as error:
            return self._refuse(group, error, own)
        except SteleError as error:
            return self._die(group, error, own)
        except BaseException as error:
            self._die(group, StorageFailed(f"the log was interrupted: {error!r}"), own)
            raise
        with self._lock:
            self._queue.settle(group)
            if written is not None:
                self._ledger.record(written)
            following = self._hand_over(group, own)
        return self._wake(group, following)

    def _write(self, group: Sequence[Ticket]) -> Written | None:
        """Make a group durable, and make sure that it was ours to write."""
        commits = [ticket.commit for ticket in group if ticket.commit is not None]
        if not commits:
            return self._writer.close() if group else None
        written = self._writer.write(commits)
        self._events.fence()
        self._events.on_durable(written.txns[1])
        return written

    def _refuse(self, group: list[Ticket], error: OutOfSpace, own: Ticket | None) -> bool:
        on_refused = self._events.on_refused
        with self._lock:
            failed = self._queue.refuse(group, error)
            if on_refused is None:
                self._queue.resume()
        if on_refused is not None:
            on_refused(error)
        with self._lock:
            following = self._hand_over(failed, own)
        return self._wake(failed, following)

    def _die(self, group: list[Ticket], error: SteleError, own: Ticket | None) -> bool:
        with self._lock:
            failed = self._queue.die(group, error)
            following = self._hand_over(failed, own)
        self._writer.abandon()
        self._events.on_dead(error)
        return self._wake(failed, following)

    def _hand_over(self, group: Sequence[Ticket], own: Ticket | None) -> _Following:
        """What comes after a settled group. The lock is held."""
        blocked = [ticket for ticket in group if ticket.gate is not None]
        heads = _chained(blocked, WAKE_CHAINS) if blocked else []
        self._gathering.expect(len(self._queue) + len(blocked) + (own is not None))
        if own is not None and not own.done:
            return _Following(_Lead.OURS, heads)
        following = self._choose_leader(may_lead=own is None)
        return _Following(following.lead, [*following.gates, *heads])  # I/O first, then the rest

    def _choose_leader(self, may_lead: bool) -> _Following:
        """Who leads next: a thread that waits, else we if we may, else a job. The lock is held."""
        if len(self._queue):
            waiting = self._queue.first_waiting()
            if waiting is not None and waiting.gate is not None:
                waiting.leads = True
                return _Following(_Lead.THEIRS, [waiting.gate])
            if may_lead:
                return _Following(_Lead.OURS, [])
            if self._spawn is not None and not self._job_runs:
                self._job_runs = True
                return _Following(_Lead.A_JOBS, [])
        self._led = False  # whoever is in the queue is about to wait and will lead, or a job will
        return _NOBODY

    def _wake(self, group: Sequence[Ticket], following: _Following) -> bool:
        """Tell everybody. Returns whether the lead is still ours."""
        for gate in following.gates:
            gate.release()
        if following.lead is _Lead.A_JOBS:
            assert self._spawn is not None
            self._spawn(self._lead_on)
        for ticket in group:
            for callback in ticket.callbacks:
                callback(ticket)
        return following.lead is _Lead.OURS


def _close_gate(ticket: Ticket) -> Gate:
    """A gate that a thread is about to wait behind. The lock is held."""
    gate = ticket.gate = threading.Lock()
    ticket.leads = False
    gate.acquire()
    return gate


def _open_next(ticket: Ticket) -> None:
    """Wake whoever is behind us in the chain, once."""
    successor, ticket.successor = ticket.successor, None
    if successor is not None:
        successor.release()


def _passed(gate: Gate, timeout_s: float | None) -> bool:
    """Block until the gate is opened; False if the time is over first."""
    return gate.acquire(timeout=-1 if timeout_s is None else timeout_s)


def _chained(blocked: Sequence[Ticket], chains: int) -> list[Gate]:
    """Link waiting threads so that each wakes the next; the gates of the first of every chain."""
    for ticket, successor in zip(blocked, blocked[chains:], strict=False):
        ticket.successor = successor.gate
    return [ticket.gate for ticket in blocked[:chains] if ticket.gate is not None]
