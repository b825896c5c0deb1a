"""The queue in front of the log: which commits go into the next entry, and what becomes of others.

Pure: no I/O, no threads, no clock. ``stele.storage.group_commit`` drives it, inside a lock.

    OPEN      commits are taken
    REFUSING  the disk is full. What was queued has failed, because a commit may build on the one
              before it (an increment reads what is not durable yet), and so nothing may be taken
              until the owner has removed the failed commits from memory and says so
    CLOSED    the last entry is queued or written
    DEAD      a sync failed, or somebody else owns the log now. Nothing is acknowledged ever after
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum
from typing import Protocol

import msgspec

from stele.errors import OutOfSpace, SteleError, Unavailable
from stele.storage.log_parts import Commit

GROUP_BYTES_MAX = 4 * 1024 * 1024
"""Commits are added to an entry until it is this large: a sync of more takes longer than two."""


class QueueState(Enum):
    OPEN = "open"
    REFUSING = "refusing"
    CLOSED = "closed"
    DEAD = "dead"


class QueueEvent(Enum):
    DISK_FULL = "disk full"
    RESUME = "resume"
    CLOSE = "close"
    FAIL = "fail"


TRANSITIONS: Mapping[tuple[QueueState, QueueEvent], QueueState] = {
    (QueueState.OPEN, QueueEvent.DISK_FULL): QueueState.REFUSING,
    (QueueState.OPEN, QueueEvent.CLOSE): QueueState.CLOSED,
    (QueueState.OPEN, QueueEvent.FAIL): QueueState.DEAD,
    (QueueState.REFUSING, QueueEvent.RESUME): QueueState.OPEN,
    (QueueState.REFUSING, QueueEvent.CLOSE): QueueState.CLOSED,
    (QueueState.REFUSING, QueueEvent.FAIL): QueueState.DEAD,
    # The last entry found the disk full: the file stays without it, which a reader accepts.
    (QueueState.CLOSED, QueueEvent.DISK_FULL): QueueState.CLOSED,
    (QueueState.CLOSED, QueueEvent.FAIL): QueueState.DEAD,
    (QueueState.DEAD, QueueEvent.FAIL): QueueState.DEAD,
}


class Gate(Protocol):
    """What a blocked thread waits behind."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait until it is open; False if the time is over first."""

    def release(self) -> None:
        """Let it go on."""


class Ticket(msgspec.Struct, eq=False):
    """A commit on its way. ``done`` is set once, together with ``error`` if it failed.

    A failed commit is not in the log if the error is ``OutOfSpace``, and may be in the log after
    any other error.
    """

    commit: Commit | None
    """``None`` on the ticket that ends the log."""
    callbacks: tuple[Callable[[Ticket], None], ...] = ()
    """Called once, when ``done``, by whoever wrote the entry; they must be quick."""
    done: bool = False
    error: SteleError | None = None
    gate: Gate | None = None
    """Set while a thread waits for this ticket."""
    leads: bool = False
    """Whoever waits for it writes the next entry, or was woken for that: it is not done yet."""
    successor: Gate | None = None
    """Whose gate is opened by the thread that comes through this one."""

    @property
    def txn(self) -> int:
        assert self.commit is not None, "the end of the log has no txn"
        return self.commit.txn


class LogQueue:
    """First in, first out. Not safe for threads."""

    def __init__(self, group_bytes_max: int = GROUP_BYTES_MAX) -> None:
        self._group_bytes_max = group_bytes_max
        self._waiting: deque[Ticket] = deque()
        self._state = QueueState.OPEN
        self._reason: SteleError | None = None
        self._txn_last = 0
        self.queued_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def state(self) -> QueueState:
        return self._state

    @property
    def reason(self) -> SteleError | None:
        """Why nothing is taken, when the state is REFUSING or DEAD."""
        return self._reason

    def first_waiting(self) -> Ticket | None:
        """The first ticket in line that a thread is blocked on."""
        return next((ticket for ticket in self._waiting if ticket.gate is not None), None)

    def push(self, ticket: Ticket) -> None:
        """Queue a commit; txns rise from one to the next. Raises why none is taken now."""
        if self._state is not QueueState.OPEN:
            raise self._why_not() from self._reason
        commit = ticket.commit
        assert commit is not None
        assert commit.txn > self._txn_last, "commits are queued in the order of their txns"
        self._txn_last = commit.txn
        self.queued_bytes += commit.size
        self._waiting.append(ticket)

    def _why_not(self) -> SteleError:
        return Unavailable("the log is closed") if self._reason is None else copy(self._reason)

    def take(self) -> list[Ticket]:
        """The next group, at least one ticket if there is any. The end of the log comes alone."""
        if self.queued_bytes < self._group_bytes_max and self._state is QueueState.OPEN:
            everything, self._waiting = self._waiting, deque()
            return list(everything)
        group: list[Ticket] = []
        size = 0
        while self._waiting and (not group or size < self._group_bytes_max):
            commit = self._waiting[0].commit
            if commit is None and group:
                break
            group.append(self._waiting.popleft())
            if commit is None:
                break
            size += commit.size
        return group

    def settle(self, group: list[Ticket]) -> None:
        """The group is durable."""
        for ticket in group:
            ticket.done = True
            if ticket.commit is not None:
                self.queued_bytes -= ticket.commit.size

    def refuse(self, group: list[Ticket], reason: OutOfSpace) -> list[Ticket]:
        """The group did not fit on the disk: it fails, and all that came after it."""
        self._enter(QueueEvent.DISK_FULL, reason if self._state is QueueState.OPEN else None)
        return self._fail_all(group, reason)

    def resume(self) -> None:
        """The owner has forgotten the failed commits: take new ones."""
        if self._state is QueueState.REFUSING:
            self._enter(QueueEvent.RESUME, None)

    def close(self) -> Ticket | None:
        """Take no more commits. The ticket is done with the log's end; none if it has ended."""
        if self._state in (QueueState.CLOSED, QueueState.DEAD):
            return None
        self._enter(QueueEvent.CLOSE, None)
        ticket = Ticket(None)
        self._waiting.append(ticket)
        return ticket

    def die(self, group: list[Ticket], reason: SteleError) -> list[Ticket]:
        """What is on disk is not known, or no longer ours: everybody fails, now and later."""
        known = self._reason if self._state is QueueState.DEAD else None
        self._enter(QueueEvent.FAIL, known or reason)
        return self._fail_all(group, reason)

    def _enter(self, event: QueueEvent, reason: SteleError | None) -> None:
        self._state = TRANSITIONS[self._state, event]
        self._reason = reason

    def _fail_all(self, group: list[Ticket], reason: SteleError) -> list[Ticket]:
        failed = [*group, *self._waiting]
        self._waiting.clear()
        for ticket in failed:
            ticket.error = reason
        self.settle(failed)
        return failed
