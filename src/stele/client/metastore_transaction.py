"""Interactive transactions of the metastore: all reads of one index, writes if they still hold."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from stele.client.metastore_buffer import TransactionBuffer
from stele.client.metastore_paths import check_text, check_value, selection
from stele.client.metastore_sequence import RequestNumbers
from stele.client.metastore_transport import Transport
from stele.errors import StaleHandle
from stele.protocol.metastore import COMMIT, GET, RANGE, GetRequest, RangeRequest
from stele.protocol.metastore_values import KeyValue, Put


class AsyncMetastoreTransaction:
    """Made by ``AsyncMetastore.transaction``; used in an ``async with`` by one task."""

    def __init__(self, transport: Transport, sequence: RequestNumbers, timeout_s: float) -> None:
        self._transport = transport
        self._sequence = sequence
        self._timeout_s = timeout_s
        self._buffer = TransactionBuffer()
        self._ended = False
        self.index: int | None = None
        """The index of the commit, once there is one; of the reads, if nothing was written."""

    async def get(self, key: str) -> KeyValue | None:
        """A key as it was at the moment of the first read, or as this transaction wrote it."""
        self._check_open()
        mine, item = self._buffer.written(key)
        if mine:
            return item
        request = GetRequest(key, self._buffer.read_index)
        found = await self._transport.call(GET, request, timeout_s=self._timeout_s)
        self._buffer.note_read(selection(key), found.index)
        return found.item

    async def range(self, path: str, end: str | None = None) -> list[KeyValue]:
        """The keys of a directory, or from ``path`` to ``end``, likewise."""
        self._check_open()
        whole = selected = selection(path, end)
        items: list[KeyValue] = []
        while True:
            request = RangeRequest(selected, at=self._buffer.read_index)
            page = await self._transport.call(RANGE, request, timeout_s=self._timeout_s)
            self._buffer.note_read(whole, page.index)
            items += page.items
            if not page.more:
                return self._buffer.overlay(whole, items)
            selected = selection(page.items[-1].key + "\0", selected.end)

    def put(self, key: str, value: bytes, *, session: int = 0) -> None:
        """Write a key when the transaction commits."""
        self._check_open()
        self._buffer.put(Put(check_text(key), check_value(value), session))

    def delete(self, key: str) -> None:
        """Remove a key when the transaction commits."""
        self._check_open()
        self._buffer.delete(key)

    async def commit(self) -> int:
        """Make the writes hold, or raise ``Conflict`` and change nothing; the index."""
        self._check_open()
        self._ended = True
        self.index = self._buffer.read_index
        if not self._buffer.is_read_only:
            await self._sequence.be_born(self._transport, self._timeout_s)
            with self._sequence.next() as identity:
                request = self._buffer.commit_request(identity)
                done = await self._transport.call(COMMIT, request, timeout_s=self._timeout_s)
            self.index = done.index
        return self.index

    def _check_open(self) -> None:
        if self._ended:
            raise StaleHandle("the transaction has ended: begin a new one")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if kind is None:
            await self.commit()
        self._ended = True
