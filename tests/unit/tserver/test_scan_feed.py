from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from stele.client.aio_waiting import Workers
from stele.errors import TransientIoError
from stele.model.arrow_ipc import decode_ipc
from stele.model.cells import Cell, cells_to_batch
from stele.tserver.scan_feed import ScanFeed


class Scan:
    """A ``CellStream`` whose steps wait for the test."""

    def __init__(self, batches: int, failing: bool = False) -> None:
        self.txn = 5
        self.left = batches
        self.failing = failing
        self.closed_inside = self.closed = False
        self.inside = False
        self.gate = threading.Semaphore(0)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        self.inside = True
        self.gate.acquire()
        self.inside = False
        if self.failing:
            raise TransientIoError("the disk")
        if not self.left:
            raise StopIteration
        self.left -= 1
        return cells_to_batch([Cell(b"%d" % self.left, "f", b"q", 1)] if self.left else [])

    def close(self) -> None:
        self.closed, self.closed_inside = True, self.inside

    def explain(self) -> dict[str, Any]:
        return {"left": self.left}


async def test_batches_come_encoded_and_empty_ones_not_at_all() -> None:
    scan, ended = Scan(3), list[bool]()
    scan.gate.release(10)
    feed = ScanFeed(scan, Workers(1), lambda: ended.append(True))
    rows = []
    while (batch := await feed.next_batch()) is not None:
        rows += decode_ipc(batch.cells).column("row").to_pylist()
        assert batch.txn == feed.txn == 5
    assert rows == [b"2", b"1"]
    assert feed.explain() == {"left": 0}
    feed.close()
    assert scan.closed
    assert ended == [True]


async def test_a_scan_is_not_closed_under_the_hands_of_a_thread() -> None:
    scan, ended = Scan(9), asyncio.Event()
    scan.gate.release(1)
    feed = ScanFeed(scan, Workers(1), ended.set)
    assert await feed.next_batch() is not None
    feed.close()
    assert (scan.closed, scan.closed_inside) == (False, False)
    scan.gate.release(1)
    await ended.wait()
    assert (scan.closed, scan.closed_inside) == (True, False)


async def test_an_error_is_told_to_the_reader_and_to_nobody_who_left() -> None:
    scan, ended = Scan(9, failing=True), asyncio.Event()
    scan.gate.release(9)
    feed = ScanFeed(scan, Workers(1), ended.set)
    with pytest.raises(TransientIoError):
        await feed.next_batch()
    feed.close()
    await ended.wait()
    assert scan.closed
