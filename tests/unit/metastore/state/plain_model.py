"""The state machine as one would write it without caring for speed, space or restarts.

Everything is a dictionary; the state after every index is kept for ever; a transaction is validated
by comparing what every key in its ranges was then and is now. What the model answers is what the
real one must answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stele.metastore.commands import LockState
from stele.protocol.metastore_values import KeyValue


@dataclass
class ModelRequest:
    """A holder or a waiter of a lock."""

    session: int
    exclusive: bool
    ticket: int
    token: int = 0


@dataclass
class PlainModel:
    """All of the state after ``index``."""

    index: int = 0
    items: dict[str, KeyValue] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    """When each key was last put or deleted."""
    sessions: set[int] = field(default_factory=set)
    locks: dict[str, list[ModelRequest]] = field(default_factory=dict)
    past: list[dict[str, KeyValue]] = field(default_factory=lambda: [{}])

    def begin(self) -> int:
        """The index of the next entry."""
        self.index += 1
        return self.index

    def end(self) -> None:
        """Keep what is the state now."""
        self.past.append(dict(self.items))

    def put(self, key: str, value: bytes, session: int = 0) -> int:
        old = self.items.get(key)
        created, version = (old.created, old.version + 1) if old else (self.index, 1)
        self.items[key] = KeyValue(key, value, self.index, created, version, session)
        self.touched[key] = self.index
        return version

    def delete(self, key: str) -> int:
        if self.items.pop(key, None) is None:
            return 0
        self.touched[key] = self.index
        return 1

    def within(self, start: str, end: str) -> list[str]:
        return sorted(key for key in self.items if start <= key < end)

    def has_changed(self, start: str, end: str, since: int) -> bool:
        return any(start <= key < end and at > since for key, at in self.touched.items())

    def end_sessions(self, ended: set[int]) -> None:
        ended &= self.sessions
        self.sessions -= ended
        for item in list(self.items.values()):
            if item.session in ended:
                self.delete(item.key)
        for key in self.locks:
            self.locks[key] = [each for each in self.locks[key] if each.session not in ended]
            self.pass_on(key)

    def acquire(self, session: int, key: str, exclusive: bool, wait: bool) -> LockState:
        queue = self.locks.setdefault(key, [])
        request = ModelRequest(session, exclusive, self.index)
        queue.append(request)
        self.pass_on(key)
        if request.token:
            return LockState.GRANTED
        if wait:
            return LockState.WAITING
        queue.remove(request)
        return LockState.BUSY

    def release(self, session: int, key: str) -> None:
        queue = self.locks.get(key, [])
        self.locks[key] = [each for each in queue if each.session != session]
        self.pass_on(key)

    def pass_on(self, key: str) -> None:
        """From the head of the queue on, everyone who goes together with all before it."""
        before: list[ModelRequest] = []
        for request in self.locks[key]:
            if before and (request.exclusive or any(each.exclusive for each in before)):
                break
            request.token = request.token or self.index
            before.append(request)

    def request_of(self, session: int, key: str) -> ModelRequest | None:
        for request in self.locks.get(key, []):
            if request.session == session:
                return request
        return None
