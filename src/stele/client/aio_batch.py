"""Buffered writes for asyncio: the parts are those of ``stele.client.batch``, awaited."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Self

from stele.client.aio_waiting import durable, insist_in_line
from stele.client.batch import PARTS_IN_FLIGHT_MAX, Part, PartBuffer, naming
from stele.client.encoder import Columns, Key, Values
from stele.client.table_core import TableCore
from stele.client.times import Moment
from stele.client.waiting import Timeout
from stele.errors import InvalidArgument, SteleError
from stele.model.mutations import MutationBatch


class AsyncBatch:
    """Made by ``AsyncTable.batch``, used in an ``async with`` by one task.

    As with its blocking sibling everything is durable when the block ends, and an exception or
    cancellation in it drops what was not sent.
    """

    def __init__(self, core: TableCore, timeout: Timeout = None) -> None:
        self._core = core
        self._timeout = timeout
        self._parts: deque[Part] = deque()
        self._buffer = PartBuffer()
        self._ended = False
        self.txn = 0
        """The highest txn that is known to be durable."""

    async def put(self, key: Key, values: Values, *, timestamp: Moment | None = None) -> None:
        """Write columns of a row; see ``Table.put``."""
        await self._add(self._core.put_request(key, values, timestamp))

    async def delete(
        self,
        key: Key,
        columns: Columns = None,
        *,
        until: Moment | None = None,
        timestamp: Moment | None = None,
    ) -> None:
        """Erase a row, or columns of it; see ``Table.delete``."""
        await self._add(self._core.delete_request(key, columns, until, timestamp))

    async def flush(self) -> int:
        """Send what is buffered and return the highest txn when everything is durable."""
        await self._send()
        while self._parts:
            await self._end_one()
        return self.txn

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended = True
        if kind is None:
            await self.flush()
        elif issubclass(kind, Exception):
            while self._parts:
                with suppress(SteleError):
                    await self._end_one()

    async def _add(self, request: MutationBatch) -> None:
        if self._ended:
            raise InvalidArgument("the batch has ended; make a new one")
        if not self._buffer.takes(request):
            await self._send()
        self._buffer.add(request)
        if self._buffer.is_full:
            await self._send()

    async def _send(self) -> None:
        while len(self._parts) >= PARTS_IN_FLIGHT_MAX:
            await self._end_one()  # the error of another part leaves what is buffered here
        buffer, self._buffer = self._buffer, PartBuffer()
        if not buffer.mutations:
            return
        deadline = self._core.world.deadline(self._timeout)
        with naming(lambda: buffer.rows):
            pending = await insist_in_line(
                deadline,
                lambda ticket: self._core.apply(buffer.mutations, deadline, ticket=ticket),
                self._core.backend.admission_ticket,
            )
        self._parts.append(Part(lambda: buffer.rows, pending))

    async def _end_one(self) -> None:
        part = self._parts.popleft()
        with naming(part.rows):
            txn = await durable(part.pending, self._core.world.deadline(self._timeout))
            self.txn = max(self.txn, txn)
