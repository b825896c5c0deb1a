"""What recipes ask of a metastore: the names of its clients, whether embedded or over the network.

Paths are absolute; one that ends in a slash is a directory and means everything below it. An
*index* is a position of the replicated log. This describes
``stele.client.metastore.Metastore``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self

from stele.protocol.metastore_values import Changes, Compare, KeyValue, Operation


class TransactionPort(Protocol):
    """Reads of one moment, and writes that hold only if nothing of what was read has changed."""

    def get(self, key: str) -> KeyValue | None:
        """A key at that moment, or as this transaction has written it."""

    def range(self, path: str, end: str | None = None) -> list[KeyValue]:
        """A directory, or the keys from ``path`` to ``end``, likewise."""

    def put(self, key: str, value: bytes) -> None:
        """Write a key when the transaction commits."""

    def delete(self, key: str) -> None:
        """Remove a key when the transaction commits."""

    def commit(self) -> int:
        """Make the writes hold, or raise ``Conflict`` and change nothing; the index."""


class LockPort(Protocol):
    """A lock that is asked for, held, and given back."""

    @property
    def token(self) -> int:
        """The fencing token; 0 while it is not held."""

    @property
    def is_held(self) -> bool:
        """Whether nobody else can hold it at this moment, for certain."""

    def acquire(self) -> int:
        """Wait for it; the token."""

    def release(self) -> None:
        """Give it back. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class SessionPort(Protocol):
    """A sign of life: what it holds ends with it."""

    @property
    def id(self) -> int:
        """Higher than that of every earlier session."""

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended before this moment, for certain."""

    def lock(
        self, key: str, *, exclusive: bool = True, timeout: float | None = None, wait: bool = True
    ) -> LockPort:
        """A lock on a key, first come first served; ``timeout`` in seconds."""

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call back once when the session is lost; at once if it is already."""

    def close(self) -> None:
        """End it. Idempotent."""


class WatchPort(Protocol):
    """Every change from an index on, whole transactions, in order."""

    def __iter__(self) -> Iterator[Changes]: ...

    def close(self) -> None:
        """Watch no longer. Idempotent."""


class ExecutedPort(Protocol):
    """What a compare-and-swap did."""

    @property
    def index(self) -> int:
        """Where."""

    @property
    def succeeded(self) -> bool:
        """Whether the compares held."""


class MetastorePort(Protocol):
    """A store of paths."""

    def get(self, key: str) -> KeyValue | None:
        """A key as it is now."""

    def range(self, path: str, end: str | None = None) -> list[KeyValue]:
        """A directory, or the keys from ``path`` to ``end``, in order."""

    def put(self, key: str, value: bytes) -> int:
        """Write a key; the index."""

    def delete(self, path: str, end: str | None = None) -> int:
        """Remove keys; how many there were."""

    def txn(
        self,
        compares: Iterable[Compare] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
    ) -> ExecutedPort:
        """If all compares hold do ``then``, else ``otherwise``, in one step."""

    def transaction(self) -> TransactionPort:
        """Begin a transaction; whoever began it commits it."""

    def session(self, ttl: float = 10) -> SessionPort:
        """Open a session that ends when nobody keeps it alive for ``ttl`` seconds."""

    def watch(self, path: str, end: str | None = None, *, since: int | None = None) -> WatchPort:
        """Every change of a key or directory after an index, or from now on."""
