"""A lock whose holder can prove it at the very moment it writes.

Holding a lock is a belief about the past: a process may sleep, its session end and another get the
lock before it goes on. A write into the metastore itself need not trust that belief. It compares
the lock's token in the same entry that writes, so it takes effect only if the lock is still held
under that token. Writes to other systems carry ``token`` along, and those refuse a lower one than
they have seen.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from stele.coordination.metastore_port import LockPort, MetastorePort, SessionPort
from stele.errors import SessionExpired
from stele.protocol.metastore_values import Compare, CompareField, Operation, Relation


class FencedLock:
    """An exclusive lock on ``key``, held within ``with``. One thread uses it."""

    def __init__(
        self,
        metastore: MetastorePort,
        session: SessionPort,
        key: str,
        *,
        timeout: float | None = None,
    ):
        self._metastore = metastore
        self._key = key
        self._lock: LockPort = session.lock(key, exclusive=True, timeout=timeout)

    @property
    def token(self) -> int:
        """The fencing token; 0 while the lock is not held."""
        return self._lock.token

    def write(self, *operations: Operation) -> int:
        """Do all of it if the lock is still held, else ``SessionExpired`` and none of it."""
        token = self._lock.token
        if not token:  # as that of a lock which nobody holds: a compare would find them equal
            raise SessionExpired(f"the lock {self._key} is not held: nothing was written")
        held = Compare(self._key, CompareField.TOKEN, Relation.EQUAL, token)
        done = self._metastore.txn([held], operations)
        if not done.succeeded:
            raise SessionExpired(f"the lock {self._key} is not held any more: nothing was written")
        return done.index

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()
