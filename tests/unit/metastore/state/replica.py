"""A replica for tests: a state machine with clients that number their requests."""

from __future__ import annotations

from stele.metastore.command_checks import checked_payload
from stele.metastore.commands import (
    NOBODY,
    Acquire,
    AdvanceWaterline,
    Answer,
    CancelWait,
    CloseSession,
    Command,
    CommitTransaction,
    Effects,
    Execute,
    Executed,
    ExpireSessions,
    LockAnswer,
    OpenSession,
    Release,
    SessionOpened,
)
from stele.metastore.kv import KeyValues
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import (
    Compare,
    Delete,
    Identity,
    KeyRange,
    Operation,
    Put,
)

TTL_US = 1_000_000


class Replica:
    """Applies one command at a time, each in a batch of its own."""

    def __init__(self, values: KeyValues | None = None):
        self.values = MemoryKeyValues() if values is None else values
        self.machine = StateMachine(self.values)
        self.log: list[tuple[int, bytes]] = []
        self._sequences: dict[int, int] = {}
        self._births: dict[int, int] = {}

    def restart(self) -> None:
        """Read everything back from the store."""
        self.machine = StateMachine(self.values)

    def identity(self, client: int) -> Identity:
        """The next request of a client that has all earlier answers."""
        sequence = self._sequences.get(client, 0) + 1
        self._sequences[client] = sequence
        born = self._births.setdefault(client, self.machine.applied_index)
        return Identity(client, sequence, sequence - 1, born)

    def apply(self, command: Command) -> Effects:
        """Make a command the next entry."""
        entry = (self.machine.applied_index + 1, checked_payload(command))
        self.log.append(entry)
        return self.machine.apply([entry])[0]

    def answer(self, command: Command) -> Answer:
        """The same, if only the answer matters."""
        answer = self.apply(command).answer
        assert answer is not None
        return answer

    def execute(
        self,
        *success: Operation,
        compares: tuple[Compare, ...] = (),
        failure: tuple[Operation, ...] = (),
        client: int = 1,
    ) -> Executed:
        """Execute, which must not be refused."""
        answer = self.answer(Execute(self.identity(client), success, compares, failure))
        assert isinstance(answer, Executed), answer
        return answer

    def put(self, key: str, value: bytes, session: int = 0, client: int = 1) -> int:
        """Put a key; the index."""
        return self.execute(Put(key, value, session), client=client).index

    def delete(self, key: str, end: str | None = None) -> int:
        """Delete; the index."""
        return self.execute(Delete(key, end)).index

    def commit(
        self, read_index: int, ranges: tuple[KeyRange, ...], *writes: Put | Delete
    ) -> Answer:
        """Commit an interactive transaction."""
        return self.answer(CommitTransaction(self.identity(1), read_index, ranges, writes))

    def open_session(self, client: int = 1) -> int:
        """Open a session; its id."""
        answer = self.answer(OpenSession(self.identity(client), TTL_US, "test", 0))
        assert isinstance(answer, SessionOpened), answer
        return answer.session

    def close_session(self, session: int, client: int = 1) -> Effects:
        """Close a session."""
        return self.apply(CloseSession(self.identity(client), session))

    def expire(self, *sessions: int) -> Effects:
        """Expire sessions."""
        return self.apply(ExpireSessions(NOBODY, sessions, 0))

    def acquire(
        self, session: int, key: str, exclusive: bool = True, wait: bool = True, client: int = 1
    ) -> LockAnswer:
        """Ask for a lock, which must not be refused."""
        answer = self.answer(Acquire(self.identity(client), session, key, exclusive, wait))
        assert isinstance(answer, LockAnswer), answer
        return answer

    def release(self, session: int, key: str, client: int = 1) -> Effects:
        """Give a lock back."""
        return self.apply(Release(self.identity(client), session, key))

    def cancel(self, session: int, key: str, ticket: int, client: int = 1) -> Effects:
        """Leave a queue."""
        return self.apply(CancelWait(self.identity(client), session, key, ticket))

    def advance(self, to_index: int) -> Answer:
        """Raise the waterline."""
        return self.answer(AdvanceWaterline(NOBODY, to_index))

    def image(self) -> bytes:
        """All chunks in one."""
        return b"".join(self.machine.export())

    def contents(self, at: int | None = None) -> dict[str, bytes]:
        """All keys with their values."""
        page = self.machine.range(KeyRange("/", "0"), at)
        assert not page.more
        return {item.key: item.value for item in page.items}
