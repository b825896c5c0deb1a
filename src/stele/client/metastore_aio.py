"""The metastore for asyncio: paths and values, transactions, sessions with locks, watches.

    ms = await stele.aio.connect_metastore(["127.0.0.1:7420"])
    await ms.put("/config/limit", b"10")
    async with await ms.session(ttl=10) as session, session.lock("/locks/leader") as lock:
        ...  # lock.token grows with every holder: hand it to whatever the lock protects

Reads are linearizable unless they say ``serializable=True``: any node answers then, from what it
has. Every call has a deadline and is tried again until then, at whichever node leads; what changes
something takes effect once, however often it was sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from stele.client.closing import AsyncClosing
from stele.client.metastore_admin import MetastoreAdmin
from stele.client.metastore_paths import check_text, check_value, selection
from stele.client.metastore_sequence import RequestNumbers
from stele.client.metastore_session import AsyncSession
from stele.client.metastore_transaction import AsyncMetastoreTransaction
from stele.client.metastore_transport import Transport
from stele.client.metastore_watch import AsyncWatch
from stele.client.waiting import US_PER_SECOND, Timeout, timeout_us
from stele.errors import Conflict, DeadlineExceeded, InvalidArgument
from stele.protocol.metastore import (
    EXECUTE,
    GET,
    OPEN_SESSION,
    RANGE,
    READ_INDEX,
    ExecuteRequest,
    ExecuteResponse,
    GetRequest,
    OpenSessionRequest,
    RangeRequest,
    ReadIndexRequest,
    WatchRequest,
)
from stele.protocol.metastore_values import Compare, Delete, KeyValue, Operation, Put

T = TypeVar("T")

SESSION_TTL_S_DEFAULT = 10.0

PAGE_KEYS = 1_000
"""Keys of a range that are asked for at a time."""


def seconds(timeout: Timeout) -> float:
    """A timeout in seconds."""
    return timeout_us(timeout) / US_PER_SECOND


class AsyncMetastore(AsyncClosing):
    """A client of one metastore. Tasks share it."""

    def __init__(self, transport: Transport, sequence: RequestNumbers, name: str = "") -> None:
        self.transport = transport
        self.sequence = sequence
        self.admin = MetastoreAdmin(transport, self.sequence)
        self._name = name

    # Keys.

    async def get(
        self, key: str, *, at: int = 0, serializable: bool = False, timeout: Timeout = None
    ) -> KeyValue | None:
        """A key's value and versions, or None; ``at`` an index reads the past."""
        request = GetRequest(check_text(key), at, serializable)
        call = self.transport.call_nearest if serializable or at else self.transport.call
        return (await call(GET, request, timeout_s=seconds(timeout))).item

    async def range(
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
        """The keys of a directory such as ``/jobs/``, or from ``path`` to ``end``, in order.

        However many there are, they are all of one index.
        """
        if limit is not None and limit < 0:
            raise InvalidArgument(f"limit {limit} must not be negative")
        call = self.transport.call_nearest if serializable or at else self.transport.call
        timeout_s = seconds(timeout)
        selected = selection(path, end)
        items: list[KeyValue] = []
        while True:
            wanted = PAGE_KEYS if limit is None else min(PAGE_KEYS, limit - len(items))
            if not wanted:
                return items
            request = RangeRequest(selected, wanted, keys_only, at, serializable)
            page = await call(RANGE, request, timeout_s=timeout_s)
            items += page.items
            if not page.more:
                return items
            selected = selection(page.items[-1].key + "\0", selected.end)
            at = page.index

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        session: AsyncSession | int | None = None,
        timeout: Timeout = None,
    ) -> int:
        """Write a key; the index of the change. With a session, the key goes when that ends."""
        write = Put(check_text(key), check_value(value), session_id(session))
        return (await self._execute((write,), timeout)).index

    async def delete(self, path: str, end: str | None = None, *, timeout: Timeout = None) -> int:
        """Remove a key, a directory, or all keys from ``path`` to ``end``; how many there were."""
        selected = selection(path, end)
        done = await self._execute((Delete(selected.start, selected.end),), timeout)
        (count,) = done.results
        assert isinstance(count, int), "a deletion is answered with a number"
        return count

    async def txn(
        self,
        compares: Iterable[Compare] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        timeout: Timeout = None,
    ) -> ExecuteResponse:
        """If all compares hold do ``then``, else ``otherwise``: in one atomic step."""
        return await self._execute(tuple(then), timeout, tuple(compares), tuple(otherwise))

    async def _execute(
        self,
        then: tuple[Operation, ...],
        timeout: Timeout,
        compares: tuple[Compare, ...] = (),
        otherwise: tuple[Operation, ...] = (),
    ) -> ExecuteResponse:
        sequence, timeout_s = self.sequence, seconds(timeout)
        if not sequence.is_born:
            await sequence.be_born(self.transport, timeout_s)
        identity = sequence.begin()
        try:
            request = ExecuteRequest(identity, then, compares, otherwise)
            return await self.transport.call(EXECUTE, request, timeout_s=timeout_s)
        finally:
            sequence.end(identity)

    async def index(self, *, timeout: Timeout = None) -> int:
        """An index that holds everything that was acknowledged before: to read or watch from."""
        request = ReadIndexRequest()
        return (await self.transport.call(READ_INDEX, request, timeout_s=seconds(timeout))).index

    # Transactions.

    def transaction(self, *, timeout: Timeout = None) -> AsyncMetastoreTransaction:
        """Reads of one moment and writes that hold only if none of it changed: ``async with``.

        ``Conflict`` when it is left and something changed: nothing was written.
        """
        return AsyncMetastoreTransaction(self.transport, self.sequence, seconds(timeout))

    async def transact(
        self,
        work: Callable[[AsyncMetastoreTransaction], Awaitable[T]],
        *,
        timeout: Timeout = None,
    ) -> T:
        """Run a transaction, again from its beginning while others get in between."""
        ends_us = self.transport.monotonic_us() + timeout_us(timeout)
        while True:
            try:
                async with self.transaction(timeout=timeout) as transaction:
                    result = await work(transaction)
            except Conflict as error:
                if self.transport.monotonic_us() >= ends_us:
                    raise DeadlineExceeded("the transaction met others all the time") from error
            else:
                return result

    # Sessions and watches.

    async def session(
        self, ttl: Timeout = SESSION_TTL_S_DEFAULT, *, timeout: Timeout = None
    ) -> AsyncSession:
        """A session that is kept alive in the background; use it in an ``async with``."""
        ttl_us = timeout_us(ttl)
        await self.sequence.be_born(self.transport, seconds(timeout))
        sent_us = self.transport.monotonic_us()
        with self.sequence.next() as identity:
            request = OpenSessionRequest(identity, ttl_us, self._name)
            opened = await self.transport.call(OPEN_SESSION, request, timeout_s=seconds(timeout))
        return AsyncSession(self.transport, self.sequence, opened, sent_us)

    async def watch(
        self, path: str, end: str | None = None, *, since: int | None = None
    ) -> AsyncWatch:
        """Every change of a key or directory after the index ``since``, or from now on.

        Whole transactions, in order, none twice and none left out, whichever nodes fail. What is
        acknowledged after this returns is seen.
        """
        if since is not None and since < 0:
            raise InvalidArgument(f"since {since} is not an index: the first one is 0")
        request = WatchRequest(selection(path, end), -1 if since is None else since)
        watch = AsyncWatch(await self.transport.watch(request))
        await watch.start()
        return watch

    async def close(self) -> None:
        """Let go of all connections. Sessions that were not closed end by themselves."""
        await self.transport.close()


def session_id(session: AsyncSession | int | None) -> int:
    """The number of a session; 0 for none."""
    if session is None:
        return 0
    return session if isinstance(session, int) else session.id
