"""Scans for asyncio: each batch is read in a thread, the next one while this one is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Any

import pyarrow as pa

from stele.client.aio_waiting import Workers
from stele.client.scan import Scan
from stele.model.row import Row, rows_of


class AsyncScan:
    """A read of many rows in order. Made by ``AsyncTable.scan``; see ``Scan``.

    ``async for row in scan`` gives rows. A loop that is left early lets go of the store's stream
    when its iterator is closed: at once with ``contextlib.aclosing``, else when it is collected.
    """

    def __init__(self, scan: Scan, workers: Workers) -> None:
        self._scan = scan
        self._workers = workers

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of :meth:`batches`."""
        return self._scan.schema

    async def __aiter__(self) -> AsyncIterator[Row]:
        schema = self._scan.core.schema
        async for batch in self._stream(self._scan.cells(self._scan.spec)):
            for row in rows_of(batch, schema):
                yield row

    def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Arrow record batches, as they come."""
        return self._stream(self._scan.batches())

    async def to_arrow(self) -> pa.Table:
        """All of it as a ``pyarrow.Table``."""
        return await self._workers.run(self._scan.to_arrow)

    async def to_pandas(self) -> Any:
        """All of it as a ``pandas.DataFrame``."""
        return await self._workers.run(self._scan.to_pandas)

    async def to_polars(self) -> Any:
        """All of it as a ``polars.DataFrame``."""
        return await self._workers.run(self._scan.to_polars)

    async def count(self) -> int:
        """How many rows there are."""
        return await self._workers.run(self._scan.count)

    async def explain(self) -> dict[str, Any]:
        """Run the scan, throw the cells away, and say what it took."""
        return await self._workers.run(self._scan.explain)

    async def _stream(
        self, batches: Generator[pa.RecordBatch, None, None]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Never two threads in the iterator: it is closed after the last step has come back."""
        step = asyncio.ensure_future(self._workers.run(next, batches, None))
        try:
            while (batch := await asyncio.shield(step)) is not None:
                step = asyncio.ensure_future(self._workers.run(next, batches, None))
                yield batch
        finally:
            step.add_done_callback(lambda done: _close(done, batches))


def _close(done: asyncio.Future[Any], batches: Generator[pa.RecordBatch, None, None]) -> None:
    if not done.cancelled():
        done.exception()  # whoever left the loop does not want to hear of it
    batches.close()
