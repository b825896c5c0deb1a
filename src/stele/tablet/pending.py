"""Commits on their way, as their callers hold them: to wait for, or to be called back by.

Nobody writes the log on a waiter's behalf: a thread that waits leads the log itself, which is the
quickest way for one, and ``then`` starts a job for those who do not block.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from stele.errors import SteleError
from stele.storage.group_commit import GroupCommit
from stele.storage.log_queue import Ticket


class PendingCommit(Ticket, eq=False, kw_only=True):
    """A commit in the log's queue; see :class:`stele.client.backend.Pending`.

    It is the queue's own ticket, so that a put makes one object and not two. Making one queues the
    commit; txns rise, so that is part of the section that orders commits.
    """

    log: GroupCommit

    def __post_init__(self) -> None:
        self.log.push(self)

    def wait(self, timeout_us: int | None = None) -> int:
        self.log.wait(self, timeout_us)
        return self.txn

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        if not self.log.then(self, lambda ticket: callback(_own(ticket.error))):
            callback(_own(self.error))


class KnownCommit:
    """The answer to a request that took effect when it was first sent.

    While that commit is not durable, ``following`` is a later one that cannot be before it is.
    """

    __slots__ = ("_following", "_txn")

    def __init__(self, txn: int, following: PendingCommit | None = None):
        self._txn = txn
        self._following = following

    @property
    def txn(self) -> int:
        return self._txn

    def wait(self, timeout_us: int | None = None) -> int:
        if self._following is not None:
            self._following.wait(timeout_us)
        return self._txn

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        if self._following is not None:
            self._following.then(callback)
        else:
            callback(None)


def _own(error: SteleError | None) -> SteleError | None:
    """A copy for each listener: tracebacks of one must not grow in another's hands."""
    return None if error is None else copy(error)
