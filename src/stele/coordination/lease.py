"""A claim on a key: whoever makes it first has it, as long as its session lives.

Unlike a lock nobody waits for it, and what it is worth is in the key itself: an address, a job's
state. It may be changed by its owner only, and goes away with its session.
"""

from __future__ import annotations

from stele.coordination.metastore_port import MetastorePort, SessionPort
from stele.errors import AlreadyExists, SessionExpired
from stele.protocol.metastore_values import Compare, CompareField, Delete, Put, Relation


class Lease:
    """A key that belongs to a session. Made by :func:`claim`."""

    def __init__(self, metastore: MetastorePort, session: SessionPort, key: str, epoch: int):
        self._metastore = metastore
        self._session = session
        self.key = key
        self.epoch = epoch
        """The index of the claim: higher than that of every earlier owner."""

    def update(self, value: bytes) -> int:
        """Change the value while the claim holds, else ``SessionExpired``; the index."""
        done = self._metastore.txn([self._is_ours()], [Put(self.key, value, self._session.id)])
        if not done.succeeded:
            raise SessionExpired(f"{self.key} does not belong to session {self._session.id}")
        return done.index

    def release(self) -> None:
        """Give it up. Idempotent, and harmless when another has it."""
        self._metastore.txn([self._is_ours()], [Delete(self.key)])

    def _is_ours(self) -> Compare:
        return Compare(self.key, CompareField.CREATED, Relation.EQUAL, self.epoch)


def claim(metastore: MetastorePort, session: SessionPort, key: str, value: bytes) -> Lease:
    """Take a key that nobody has; ``AlreadyExists`` if somebody has it."""
    free = Compare(key, CompareField.VERSION, Relation.EQUAL, 0)
    done = metastore.txn([free], [Put(key, value, session.id)])
    if not done.succeeded:
        raise AlreadyExists(f"{key} is claimed by another")
    return Lease(metastore, session, key, done.index)
