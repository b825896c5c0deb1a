"""A metastore without consensus: the real state machine, called directly by one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from stele.errors import DeadlineExceeded
from stele.metastore.command_checks import checked_payload
from stele.metastore.commands import (
    NOBODY,
    Acquire,
    Answer,
    CloseSession,
    Command,
    CommitTransaction,
    Execute,
    Executed,
    ExpireSessions,
    LockAnswer,
    LockState,
    OpenSession,
    Release,
    SessionOpened,
    raise_if_refused,
)
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.paths import selection
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import (
    Changes,
    Compare,
    Delete,
    Identity,
    KeyRange,
    KeyValue,
    Operation,
    Put,
)

CLIENT = 1


class DirectTransaction:
    """Implements ``TransactionPort``."""

    def __init__(self, metastore: DirectMetastore):
        self._metastore = metastore
        self._index = metastore.machine.applied_index
        self._ranges: list[KeyRange] = []
        self._writes: dict[str, Put | Delete] = {}

    def get(self, key: str) -> KeyValue | None:
        if key in self._writes:
            write = self._writes[key]
            return KeyValue(key, write.value, 0, 0, 0) if isinstance(write, Put) else None
        self._ranges.append(KeyRange(key))
        return self._metastore.machine.get(key, self._index)

    def range(self, path: str, end: str | None = None) -> list[KeyValue]:
        selected = _selected(path, end)
        self._ranges.append(selected)
        return list(self._metastore.machine.range(selected, self._index).items)

    def put(self, key: str, value: bytes) -> None:
        self._writes[key] = Put(key, value)

    def delete(self, key: str) -> None:
        self._writes[key] = Delete(key)

    def commit(self) -> int:
        self._metastore.before_commit()
        writes = tuple(self._writes.values())
        ranges = tuple(self._ranges)
        identity = self._metastore.identity()
        self._metastore.answer(CommitTransaction(identity, self._index, ranges, writes))
        return self._metastore.machine.applied_index


class DirectLock:
    """Implements ``LockPort``; who would have to wait is told that it took too long."""

    def __init__(self, session: DirectSession, key: str, exclusive: bool):
        self._session = session
        self._key = key
        self._exclusive = exclusive
        self.token = 0

    @property
    def is_held(self) -> bool:
        return self.token > 0 and self._session.is_alive

    def acquire(self) -> int:
        metastore = self._session.metastore
        answer = metastore.answer(
            Acquire(metastore.identity(), self._session.id, self._key, self._exclusive, wait=False)
        )
        assert isinstance(answer, LockAnswer)
        if answer.state is not LockState.GRANTED:
            raise DeadlineExceeded(f"the lock {self._key} was not granted in time")
        self.token = answer.token
        return self.token

    def release(self) -> None:
        metastore = self._session.metastore
        metastore.answer(Release(metastore.identity(), self._session.id, self._key))
        self.token = 0

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class DirectSession:
    """Implements ``SessionPort``."""

    def __init__(self, metastore: DirectMetastore, number: int):
        self.metastore = metastore
        self.id = number

    @property
    def is_alive(self) -> bool:
        return self.metastore.machine.session(self.id) is not None

    def lock(
        self, key: str, *, exclusive: bool = True, timeout: float | None = None, wait: bool = True
    ) -> DirectLock:
        return DirectLock(self, key, exclusive)

    def on_lost(self, callback: Callable[[], None]) -> None:
        if not self.is_alive:
            callback()

    def close(self) -> None:
        self.metastore.answer(CloseSession(self.metastore.identity(), self.id))

    def expire(self) -> None:
        self.metastore.answer(ExpireSessions(NOBODY, (self.id,), 0))


class DirectWatch:
    """Implements ``WatchPort`` for what has happened so far."""

    def __init__(self, found: list[Changes]):
        self._found = found

    def __iter__(self) -> Iterator[Changes]:
        return iter(self._found)

    def close(self) -> None:
        self._found = []


class DirectMetastore:
    """Implements ``MetastorePort``."""

    def __init__(self, values: MemoryKeyValues | None = None):
        self.machine = StateMachine(values or MemoryKeyValues())
        self.before_commit: Callable[[], object] = lambda: None
        """What others do just before a transaction commits."""
        self._sequence = 0

    def identity(self) -> Identity:
        self._sequence += 1
        return Identity(CLIENT, self._sequence, self._sequence - 1)

    def answer(self, command: Command) -> Answer:
        entry = (self.machine.applied_index + 1, checked_payload(command))
        answer = self.machine.apply([entry])[0].answer
        assert answer is not None
        return raise_if_refused(answer)

    def get(self, key: str) -> KeyValue | None:
        return self.machine.get(key)

    def range(self, path: str, end: str | None = None) -> list[KeyValue]:
        return list(self.machine.range(_selected(path, end)).items)

    def put(self, key: str, value: bytes) -> int:
        return self.txn((), [Put(key, value)]).index

    def delete(self, path: str, end: str | None = None) -> int:
        selected = _selected(path, end)
        (count,) = self.txn((), [Delete(selected.start, selected.end)]).results
        assert isinstance(count, int)
        return count

    def txn(
        self,
        compares: Iterable[Compare] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
    ) -> Executed:
        command = Execute(self.identity(), tuple(then), tuple(compares), tuple(otherwise))
        answer = self.answer(command)
        assert isinstance(answer, Executed)
        return answer

    def transaction(self) -> DirectTransaction:
        return DirectTransaction(self)

    def session(self, ttl: float = 10) -> DirectSession:
        answer = self.answer(OpenSession(self.identity(), int(ttl * 1e6), "test", 0))
        assert isinstance(answer, SessionOpened)
        return DirectSession(self, answer.session)

    def watch(self, path: str, end: str | None = None, *, since: int | None = None) -> DirectWatch:
        start = self.machine.applied_index if since is None else since
        return DirectWatch(list(self.machine.history(start, 1000)))


def _selected(path: str, end: str | None) -> KeyRange:
    return selection(path) if end is None else KeyRange(path, end)
