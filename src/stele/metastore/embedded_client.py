"""A client of the metastore in this process: no socket, the caller does the work.

What a request has to wait for is waited for by the thread that made it; see
``stele.client.metastore_inline``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from stele.client.metastore import Metastore
from stele.client.metastore_aio import AsyncMetastore
from stele.client.metastore_inline import InlineRunner
from stele.client.metastore_sequence import RequestNumbers
from stele.client.metastore_transport import Lost
from stele.env.ports import Clock
from stele.metastore.embedded import HERE, EmbeddedNode
from stele.protocol import metastore as p
from stele.rpc.service import Req, Resp, Unary

_FOR_EVER_US: Final = 1 << 62


class EmbeddedTransport:
    """``Transport`` to the node in this process."""

    def __init__(self, node: EmbeddedNode, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self.addresses: tuple[str, ...] = ()

    async def call(self, method: Unary[Req, Resp], request: Req, *, timeout_s: float) -> Resp:
        """The node's answer."""
        answer: Resp = await self._node.call(self._node.binding(method.number), request, timeout_s)
        return answer

    async def call_nearest(
        self, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """The same: there is but one."""
        return await self.call(method, request, timeout_s=timeout_s)

    async def call_at(
        self, address: str, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """The same, whatever it is called."""
        assert not address, f"{address} is not in this process"
        return await self.call(method, request, timeout_s=timeout_s)

    async def watch(self, request: p.WatchRequest) -> EmbeddedWatch:
        """Begin a watch."""
        stream = self._node.binding(p.WATCH.number).function(HERE, request)
        return EmbeddedWatch(self._node, stream)

    async def backup(self, write: Callable[[bytes], object]) -> int:
        """Hand a copy of the whole state to ``write``, piece by piece; the index it is of."""
        index = 0
        stream = self._node.binding(p.BACKUP.number).function(HERE, p.BackupRequest())
        while (chunk := await self._node.drive(_next_or_none(stream), None)) is not None:
            index = chunk.index
            write(chunk.data)
        return index

    def monotonic_us(self) -> int:
        """Time that counts while the machine is suspended."""
        return self._clock.monotonic_us()

    def keep(
        self,
        session: int,
        _client: int,
        _ttl_us: int,
        renewed: Callable[[int], None],
        _lost: Lost,
    ) -> Callable[[], None]:
        """The node keeps sessions of its own process: they last as long as it does."""
        self._node.keep(session)
        renewed(_FOR_EVER_US)
        return lambda: self._node.keep_no_more(session)

    async def close(self) -> None:
        """Nothing: the node belongs to the store."""


class EmbeddedWatch:
    """``WatchSource`` of the node in this process."""

    def __init__(self, node: EmbeddedNode, stream: AsyncIterator[p.WatchResponse]) -> None:
        self._node = node
        self._stream = stream

    async def next(self) -> p.WatchResponse:
        """The next changes."""
        return await self._node.drive(_next(self._stream), None)

    async def close(self) -> None:
        """Watch no more."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await self._node.drive(close(), None)


async def _next(stream: AsyncIterator[p.WatchResponse]) -> p.WatchResponse:
    return await anext(stream)


async def _next_or_none(stream: AsyncIterator[p.BackupChunk]) -> p.BackupChunk | None:
    return await anext(stream, None)


def open_metastore(node: EmbeddedNode, clock: Clock) -> Metastore:
    """A client of a node in this process."""
    numbers = RequestNumbers(node.new_client_id())
    inner = AsyncMetastore(EmbeddedTransport(node, clock), numbers, "embedded")
    return Metastore(inner, InlineRunner())
