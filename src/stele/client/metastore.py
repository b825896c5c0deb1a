"""The metastore for threads: the same names as for asyncio, each returning when it is done.

    ms = stele.metastore.connect(["127.0.0.1:7420"])    # or db.metastore
    ms.put("/a/b", b"1"); ms.get("/a/b").value; ms.range("/a/"); ms.delete("/a/b")
    with ms.transaction() as t:
        t.put("/a/n", t.get("/a/n").value + b"1")
    with ms.session(ttl=10) as s, s.lock("/locks/x") as lock:
        lock.token
    for changes in ms.watch("/a/"):
        ...

What each call means stands at the asyncio version, whose coroutines are run here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from stele.client.closing import Closing
from stele.client.metastore_admin import RIGHTS, MetastoreAdmin
from stele.client.metastore_aio import SESSION_TTL_S_DEFAULT, AsyncMetastore, session_id
from stele.client.metastore_session import AsyncLock, AsyncSession
from stele.client.metastore_threads import ThreadsTransport
from stele.client.metastore_transaction import AsyncMetastoreTransaction
from stele.client.metastore_transport import Runner
from stele.client.metastore_watch import AsyncWatch
from stele.client.waiting import Timeout, timeout_us
from stele.errors import Conflict, DeadlineExceeded
from stele.protocol.metastore import ExecuteResponse, MemberInfo, StatusResponse
from stele.protocol.metastore_acl import AccessRule, AclResponse
from stele.protocol.metastore_member import BootstrapResponse
from stele.protocol.metastore_values import Changes, Compare, KeyValue, Operation

T = TypeVar("T")


class MetastoreTransaction:
    """``AsyncMetastoreTransaction`` for threads."""

    def __init__(self, inner: AsyncMetastoreTransaction, runner: Runner) -> None:
        self._inner = inner
        self._runner = runner

    @property
    def index(self) -> int | None:
        """The index of the commit, once there is one."""
        return self._inner.index

    def get(self, key: str) -> KeyValue | None:
        """A key as it was at the moment of the first read, or as this transaction wrote it."""
        return self._runner.run(self._inner.get(key))

    def range(self, path: str, end: str | None = None) -> list[KeyValue]:
        """The keys of a directory, or from ``path`` to ``end``, likewise."""
        return self._runner.run(self._inner.range(path, end))

    def put(self, key: str, value: bytes, *, session: Session | int | None = None) -> None:
        """Write a key when the transaction commits."""
        self._inner.put(key, value, session=_number(session))

    def delete(self, key: str) -> None:
        """Remove a key when the transaction commits."""
        self._inner.delete(key)

    def commit(self) -> int:
        """Make the writes hold, or raise ``Conflict`` and change nothing; the index."""
        return self._runner.run(self._inner.commit())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._inner.__aexit__(kind, error, trace))


class Lock:
    """``AsyncLock`` for threads."""

    def __init__(self, inner: AsyncLock, runner: Runner) -> None:
        self._inner = inner
        self._runner = runner

    @property
    def token(self) -> int:
        """The fencing token; 0 while not held."""
        return self._inner.token

    @property
    def is_held(self) -> bool:
        """Whether nobody else can hold it, for certain, at this moment."""
        return self._inner.is_held

    def acquire(self) -> int:
        """Wait for the lock; its token."""
        return self._runner.run(self._inner.acquire())

    def release(self) -> None:
        """Give it back. Idempotent."""
        self._runner.run(self._inner.release())

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


class Session(Closing):
    """``AsyncSession`` for threads."""

    def __init__(self, inner: AsyncSession, runner: Runner) -> None:
        self._inner = inner
        self._runner = runner

    @property
    def id(self) -> int:
        """Its number, for keys that should go away with it."""
        return self._inner.id

    @property
    def is_alive(self) -> bool:
        """Whether the group has not ended the session before this moment, for certain."""
        return self._inner.is_alive

    def check(self) -> None:
        """Raise ``SessionExpired`` unless the session is alive for certain."""
        self._inner.check()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call back once when the session is lost, from another thread."""
        self._inner.on_lost(callback)

    def lock(
        self, key: str, *, exclusive: bool = True, timeout: Timeout = None, wait: bool = True
    ) -> Lock:
        """A lock on a key, shared or exclusive, first come first served: use it in a ``with``."""
        inner = self._inner.lock(key, exclusive=exclusive, timeout=timeout, wait=wait)
        return Lock(inner, self._runner)

    def close(self) -> None:
        """End the session: locks pass on, its keys go away. Idempotent."""
        self._runner.run(self._inner.close())


class Watch(Closing):
    """``AsyncWatch`` for threads: an iterator of ``Changes``. One thread reads it at a time."""

    def __init__(self, inner: AsyncWatch, runner: Runner) -> None:
        self._inner = inner
        self._runner = runner

    @property
    def index(self) -> int:
        """Everything up to here has been handed out."""
        return self._inner.index

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changes:
        return self._runner.run(self._inner.__anext__())

    def close(self) -> None:
        """Watch no more. Idempotent."""
        self._runner.run(self._inner.close())


class Admin:
    """``MetastoreAdmin`` for threads."""

    def __init__(self, inner: MetastoreAdmin, runner: Runner) -> None:
        self._inner = inner
        self._runner = runner

    def status(self, address: str | None = None) -> StatusResponse:
        """How a node is."""
        return self._runner.run(self._inner.status(address))

    def members(self) -> tuple[MemberInfo, ...]:
        """The members of the group, as the leader knows them."""
        return self._runner.run(self._inner.members())

    def add_learner(self, node: int, address: str) -> tuple[MemberInfo, ...]:
        """Let a newcomer receive the log without a vote."""
        return self._runner.run(self._inner.add_learner(node, address))

    def promote(self, node: int) -> tuple[MemberInfo, ...]:
        """Give a learner that has caught up a vote."""
        return self._runner.run(self._inner.promote(node))

    def remove(self, node: int) -> tuple[MemberInfo, ...]:
        """Take a member out of the group for good."""
        return self._runner.run(self._inner.remove(node))

    def relocate(self, node: int, address: str) -> tuple[MemberInfo, ...]:
        """Tell the group that a member listens elsewhere now."""
        return self._runner.run(self._inner.relocate(node, address))

    def transfer(self, target: int = 0) -> int:
        """Hand leadership over; who leads now."""
        return self._runner.run(self._inner.transfer(target))

    def drain(self, node: int, *, undo: bool = False) -> int:
        """Let a node leave leading to others until it starts again; who leads now."""
        return self._runner.run(self._inner.drain(node, undo=undo))

    def bootstrap(self, address: str, *join: str) -> BootstrapResponse:
        """Tell a node that waits for it to found a group, or to join the one at ``join``."""
        return self._runner.run(self._inner.bootstrap(address, *join))

    def snapshot(self, write: Callable[[bytes], object]) -> int:
        """Hand a copy of the whole state to ``write``, piece by piece; the index it is of."""
        return self._runner.run(self._inner.snapshot(write))

    def clear_alarm(self, node: int) -> int:
        """A node's disk has room again."""
        return self._runner.run(self._inner.clear_alarm(node))

    def set_quota(self, limit_bytes: int) -> int:
        """The most bytes of keys, values and history; 0 for no limit."""
        return self._runner.run(self._inner.set_quota(limit_bytes))

    def acl(self) -> AclResponse:
        """All access rules, and whether they count."""
        return self._runner.run(self._inner.acl())

    def set_acl(
        self, directory: str, *rules: AccessRule, expected: tuple[AccessRule, ...] | None = None
    ) -> int:
        """Replace the access rules of a directory; none removes them. With ``expected`` only
        while it has those, else ``Conflict``."""
        return self._runner.run(self._inner.set_acl(directory, *rules, expected=expected))

    def grant(self, directory: str, caller: str, rights: str) -> int:
        """Allow a caller something in a directory, beside what it may already."""
        return self._runner.run(self._inner.grant(directory, caller, rights))

    def revoke(self, directory: str, caller: str, rights: str = RIGHTS) -> int:
        """Take rights back, all of them unless said otherwise."""
        return self._runner.run(self._inner.revoke(directory, caller, rights))

    def switch_acl(self, *, enabled: bool) -> int:
        """Turn access rules on or off."""
        return self._runner.run(self._inner.switch_acl(enabled=enabled))

    def join(self, node: int, address: str) -> tuple[MemberInfo, ...]:
        """Make a node a voter: a learner first, until it has caught up. May be repeated."""
        return self._runner.run(self._inner.join(node, address))


class Metastore(Closing):
    """A client of one metastore. Threads share it."""

    def __init__(self, inner: AsyncMetastore, runner: Runner) -> None:
        self._inner = inner
        self._runner = runner
        self.admin = Admin(inner.admin, runner)

    def get(
        self, key: str, *, at: int = 0, serializable: bool = False, timeout: Timeout = None
    ) -> KeyValue | None:
        """A key's value and versions, or None; ``at`` an index reads the past."""
        call = self._inner.get(key, at=at, serializable=serializable, timeout=timeout)
        return self._runner.run(call)

    def range(
        self,
        path: str,
        end: str | None = None,
        *,
        limit: int | None = None,
        keys_only: bool = False,
        at: int = 0,
        serializable: bool = False,
        timeout: Timeout = None,
    ) -> list[KeyValue]:
        """The keys of a directory such as ``/jobs/``, or from ``path`` to ``end``, in order."""
        call = self._inner.range(
            path,
            end,
            limit=limit,
            keys_only=keys_only,
            at=at,
            serializable=serializable,
            timeout=timeout,
        )
        return self._runner.run(call)

    def put(
        self,
        key: str,
        value: bytes,
        *,
        session: Session | int | None = None,
        timeout: Timeout = None,
    ) -> int:
        """Write a key; the index of the change. With a session, the key goes when that ends."""
        call = self._inner.put(key, value, session=_number(session), timeout=timeout)
        return self._runner.run(call)

    def delete(self, path: str, end: str | None = None, *, timeout: Timeout = None) -> int:
        """Remove a key, a directory, or all keys from ``path`` to ``end``; how many there were."""
        return self._runner.run(self._inner.delete(path, end, timeout=timeout))

    def txn(
        self,
        compares: Iterable[Compare] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        timeout: Timeout = None,
    ) -> ExecuteResponse:
        """If all compares hold do ``then``, else ``otherwise``: in one atomic step."""
        return self._runner.run(self._inner.txn(compares, then, otherwise, timeout=timeout))

    def index(self, *, timeout: Timeout = None) -> int:
        """An index that holds everything that was acknowledged before."""
        return self._runner.run(self._inner.index(timeout=timeout))

    def transaction(self, *, timeout: Timeout = None) -> MetastoreTransaction:
        """Reads of one moment and writes that hold only if none of it changed: ``with``."""
        return MetastoreTransaction(self._inner.transaction(timeout=timeout), self._runner)

    def transact(self, work: Callable[[MetastoreTransaction], T], *, timeout: Timeout = None) -> T:
        """Run a transaction, again from its beginning while others get in between."""
        clock = self._inner.transport.monotonic_us
        ends_us = clock() + timeout_us(timeout)
        while True:
            try:
                with self.transaction(timeout=timeout) as transaction:
                    result = work(transaction)
            except Conflict as error:
                if clock() >= ends_us:
                    raise DeadlineExceeded("the transaction met others all the time") from error
            else:
                return result

    def session(self, ttl: Timeout = SESSION_TTL_S_DEFAULT, *, timeout: Timeout = None) -> Session:
        """A session that is kept alive in the background; use it in a ``with``."""
        return Session(self._runner.run(self._inner.session(ttl, timeout=timeout)), self._runner)

    def watch(self, path: str, end: str | None = None, *, since: int | None = None) -> Watch:
        """Every change of a key or directory after the index ``since``, or from now on."""
        return Watch(self._runner.run(self._inner.watch(path, end, since=since)), self._runner)

    def for_coroutines(self) -> AsyncMetastore:
        """The same client for asyncio; its calls wait in threads, not on the loop."""
        transport = ThreadsTransport(self._inner.transport, self._runner)
        return AsyncMetastore(transport, self._inner.sequence, "asyncio")

    def close(self) -> None:
        """Let go of all connections."""
        self._runner.run(self._inner.close())


def _number(session: Session | int | None) -> int:
    return session.id if isinstance(session, Session) else session_id(session)
