"""Election of one among many: the holder of a lock leads, and says who it is.

    <path>              the lock: candidates queue for it, first come first served
    <path>/leader       who leads: its name and term, gone with its session

The term is the fencing token of the lock: a later leader has a higher one. The announcement is
written under the lock's token, so one who lost the lock before it could announce itself stays
silent.
"""

from __future__ import annotations

from typing import Final

import msgspec

from stele.coordination.lock import FencedLock
from stele.coordination.metastore_port import MetastorePort, SessionPort
from stele.errors import Corruption
from stele.protocol.metastore_values import Delete, KeyValue, Put

LEADER: Final = "/leader"


class Leader(msgspec.Struct, frozen=True):
    """Who leads, and in which term."""

    name: str
    term: int


class Candidate:
    """One who wants to lead under ``path``."""

    def __init__(self, metastore: MetastorePort, session: SessionPort, path: str, name: str):
        self._session = session
        self._path = path
        self._name = name
        self._lock = FencedLock(metastore, session, path)

    def campaign(self) -> int:
        """Wait until this one leads; its term."""
        self._lock.__enter__()
        leader = Leader(self._name, self._lock.token)
        announced = Put(self._path + LEADER, msgspec.json.encode(leader), self._session.id)
        self._lock.write(announced)
        return leader.term

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can lead at this moment, for certain."""
        return self._lock.token > 0 and self._session.is_alive

    def resign(self) -> None:
        """Let the next one lead."""
        try:
            if self.is_leader:
                self._lock.write(Delete(self._path + LEADER))
        finally:
            self._lock.__exit__(None, None, None)


def current_leader(metastore: MetastorePort, path: str) -> Leader | None:
    """Who leads now, as far as it has announced itself."""
    return decode_leader(metastore.get(path + LEADER))


def decode_leader(item: KeyValue | None) -> Leader | None:
    """The announcement in a key, for those who watch ``<path>/leader``."""
    if item is None:
        return None
    try:
        return msgspec.json.decode(item.value, type=Leader)
    except ValueError as error:
        raise Corruption(f"{item.key} does not name a leader: {error}") from error
