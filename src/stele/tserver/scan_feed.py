"""One scan of a stream: batches made in threads, the next one while this one is on its way.

A stream that is dropped in the middle may have a thread at work on its next batch; the store's scan
is closed when that thread has come back, never under its hands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stele.client.aio_waiting import Workers
from stele.client.backend import CellStream
from stele.model.arrow_ipc import encode_ipc


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Cells as one Arrow IPC message, and the txn they were read at."""

    txn: int
    cells: memoryview


class ScanFeed:
    """Belongs to one loop. Holds at most one batch that was not asked for."""

    def __init__(self, stream: CellStream, workers: Workers, on_close: Callable[[], None]) -> None:
        self._stream = stream
        self._workers = workers
        self._on_close = on_close
        self._step: asyncio.Future[EncodedBatch | None] | None = None

    @property
    def txn(self) -> int:
        """The txn of the scan."""
        return self._stream.txn

    def explain(self) -> dict[str, Any]:
        """What was read so far."""
        return self._stream.explain()

    async def next_batch(self) -> EncodedBatch | None:
        """The next batch that has cells; ``None`` at the end."""
        step = self._step or self._begin()
        batch = await asyncio.shield(step)
        self._step = None if batch is None else self._begin()
        return batch

    def close(self) -> None:
        """Let go of the scan, once no thread works on it."""
        if self._step is None:
            self._close()
        else:
            self._step.add_done_callback(self._close_after)

    def _begin(self) -> asyncio.Future[EncodedBatch | None]:
        self._step = asyncio.ensure_future(self._workers.run(_read_one, self._stream))
        return self._step

    def _close_after(self, step: asyncio.Future[EncodedBatch | None]) -> None:
        if not step.cancelled():
            step.exception()  # the reader has gone
        self._close()

    def _close(self) -> None:
        self._stream.close()
        self._on_close()


def _read_one(stream: CellStream) -> EncodedBatch | None:
    for batch in stream:
        if batch.num_rows:
            return EncodedBatch(stream.txn, memoryview(encode_ipc(batch)))
    return None
