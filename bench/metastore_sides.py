"""The same work for both sides: what a benchmark asks of a store, once for each.

Each side is used through the leanest client it has. Stele's is its own, over one connection, which
also finds the leader, retries and numbers its requests. etcd gets ``grpc_client`` and the address
of its leader, and for puts and gets h2load, which is written in C.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Final, Self

import stele
from bench import etcd_messages as m
from bench.grpc_client import CallFailed, GrpcConnection, Messages, connect, message
from bench.metastore_groups import ETCD, PATIENCE_S, EtcdGroup, Group, SteleGroup
from stele.client.metastore_aio import AsyncMetastore
from stele.client.metastore_session import AsyncSession
from stele.protocol.metastore_values import Compare, CompareField, Put, Relation

LIBRARIES: Final = ETCD.parent.parent / "lib" / "x86_64-linux-gnu"
SESSION_TTL_S: Final = 30
TOGETHER: Final = 256
"""Sessions that are closed at the same time."""

Handover = Callable[[], Awaitable[Callable[[], Awaitable[None]]]]
"""Wait for a lock; what it returns gives the lock back."""


class Side(ABC):
    """One store under load."""

    name: str
    group: Group

    @abstractmethod
    async def put(self, key: str, value: bytes) -> None: ...

    @abstractmethod
    async def get(self, key: str) -> None:
        """Linearizable."""

    @abstractmethod
    async def add_one(self, key: str) -> bool:
        """Read a number, write the next: a transaction. False if somebody got in between."""

    @abstractmethod
    async def watch(self, prefix: str) -> AsyncGenerator[bytes, None]:
        """Values as they are written below a prefix. Returns when the watch has begun."""

    @abstractmethod
    async def session(self) -> Callable[[str], Handover]:
        """A session; of a lock's name it makes the way to that lock."""

    @abstractmethod
    async def leader(self) -> str: ...

    @abstractmethod
    async def close(self) -> None: ...


class SteleSide(Side):
    """Through ``stele.aio.connect_metastore``."""

    name = "Stele"

    def __init__(self, group: SteleGroup, client: AsyncMetastore) -> None:
        self.group: SteleGroup = group
        self._client = client
        self._sessions: list[AsyncSession] = []

    @classmethod
    async def start(cls, folder: Path, nodes: int) -> Self:
        group = await asyncio.to_thread(SteleGroup, folder, nodes)
        return cls(group, await stele.aio.connect_metastore(group.addresses))

    async def put(self, key: str, value: bytes) -> None:
        await self._client.put(key, value, timeout=PATIENCE_S)

    async def get(self, key: str) -> None:
        await self._client.get(key)

    async def add_one(self, key: str) -> bool:
        item = await self._client.get(key)
        index, value = (0, 0) if item is None else (item.index, int(item.value))
        same = Compare(key, CompareField.INDEX, Relation.EQUAL, index)
        return (await self._client.txn([same], [Put(key, b"%d" % (value + 1))])).succeeded

    async def watch(self, prefix: str) -> AsyncGenerator[bytes, None]:
        watch = await self._client.watch(prefix)

        async def values() -> AsyncGenerator[bytes, None]:
            try:
                async for changes in watch:
                    for change in changes.changes:
                        yield change.value or b""
            finally:
                await watch.close()

        return values()

    async def session(self) -> Callable[[str], Handover]:
        session = await self._client.session(SESSION_TTL_S)
        self._sessions.append(session)

        def lock(name: str) -> Handover:
            async def acquire() -> Callable[[], Awaitable[None]]:
                held = session.lock(name, timeout=PATIENCE_S)
                await held.acquire()
                return held.release

            return acquire

        return lock

    async def leader(self) -> str:
        return await asyncio.to_thread(self.group.leader)

    async def close(self) -> None:
        while self._sessions:
            some, self._sessions = self._sessions[:TOGETHER], self._sessions[TOGETHER:]
            await asyncio.gather(*(session.close() for session in some))
        await self._client.close()
        self.group.close()


class EtcdSide(Side):
    """Through ``grpc_client``, all to the leader, which is what suits etcd best."""

    name = "etcd"

    def __init__(self, group: EtcdGroup) -> None:
        self.group: EtcdGroup = group
        self._connections: dict[str, GrpcConnection] = {}
        self._leader = ""
        self._keepers: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, folder: Path, nodes: int) -> Self:
        side = cls(await asyncio.to_thread(EtcdGroup, folder, nodes))
        async with asyncio.timeout(PATIENCE_S):
            while not await side._find_leader():
                await asyncio.sleep(0.1)
        return side

    async def _find_leader(self) -> bool:
        for address in self.group.addresses:
            with contextlib.suppress(CallFailed, OSError):
                connection = self._connections.get(address) or await connect(address)
                self._connections[address] = connection
                status = await connection.call(m.STATUS, b"")
                if m.first_number(status, 4) == m.first_number(m.first_bytes(status, 1), 2):
                    self._leader = address
                    return True
        return False

    async def _call(self, method: str, body: bytes) -> bytes:
        return await self._connections[self._leader].call(method, body)

    async def put(self, key: str, value: bytes) -> None:
        await self._call(m.PUT, m.put(key.encode(), value))

    async def get(self, key: str) -> None:
        await self._call(m.RANGE, m.get(key.encode()))

    async def add_one(self, key: str) -> bool:
        name = key.encode()
        item = m.first_bytes(await self._call(m.RANGE, m.get(name)), 2)
        value = int(m.first_bytes(item, 5) or b"0")
        body = m.put_if_unchanged(name, m.first_number(item, 3), b"%d" % (value + 1))
        return bool(m.first_number(await self._call(m.TXN, body), 2))

    async def watch(self, prefix: str) -> AsyncGenerator[bytes, None]:
        start = prefix.encode()
        body = m.watch(start, start[:-1] + bytes([start[-1] + 1]))
        connection = self._connections[self._leader]
        told, stream = connection.stream(m.WATCH, body)
        await told.next()  # says that the watch was made

        async def values() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    for value in m.events(await told.next()):
                        yield value
            finally:
                connection.cancel(stream)

        return values()

    async def session(self) -> Callable[[str], Handover]:
        granted = await self._call(m.LEASE_GRANT, m.number(1, SESSION_TTL_S))
        lease = m.first_number(granted, 2)
        connection = self._connections[self._leader]
        alive, stream = connection.stream(m.LEASE_KEEP_ALIVE, m.number(1, lease))
        keeping = self._keep(connection, alive, stream, lease)
        self._keepers.append(asyncio.ensure_future(keeping))

        def lock(name: str) -> Handover:
            async def acquire() -> Callable[[], Awaitable[None]]:
                body = m.data(1, name.encode()) + m.number(2, lease)
                key = m.first_bytes(await self._call(m.LOCK, body), 2)

                async def release() -> None:
                    await self._call(m.UNLOCK, m.data(1, key))

                return release

            return acquire

        return lock

    async def _keep(
        self, connection: GrpcConnection, alive: Messages, stream: int, lease: int
    ) -> None:
        while True:
            await alive.next()
            await asyncio.sleep(SESSION_TTL_S / 3)
            connection.send(stream, m.number(1, lease))

    async def leader(self) -> str:
        return self._leader

    async def close(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
        self.group.close()

    async def h2load(self, method: str, body: bytes, in_flight: int, seconds: float) -> float:
        """Calls a second of one request, sent again and again by h2load over one connection. It
        counts in whole seconds."""
        whole_s = max(1, round(seconds))
        with tempfile.NamedTemporaryFile() as file:
            file.write(message(body))
            file.flush()
            words = [str(ETCD.with_name("h2load")), "-t", "1", "-c", "1", "-m", str(in_flight)]
            words += ["--duration", str(whole_s), "--data", file.name]
            words += ["-H", "content-type: application/grpc"]
            words += ["-H", "te: trailers"]  # codespell:ignore te
            words += [f"http://{self._leader}{method}"]
            run = await asyncio.create_subprocess_exec(
                *words,
                stdout=subprocess.PIPE,
                env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)},
            )
            told, _ = await run.communicate()
        found = re.search(rb"(\d+) succeeded, (\d+) failed", told)
        assert found is not None, told.decode()
        assert int(found[1]), told.decode()
        return int(found[1]) / whole_s
