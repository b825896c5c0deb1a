"""A scan that another process runs: implements ``CellStream`` over a server stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stele.client.remote_link import RemoteLink
from stele.errors import Unavailable, UnsupportedFormat
from stele.model.arrow_ipc import decode_ipc
from stele.model.cells import CELLS
from stele.protocol.tables import SCAN, ScanPart, ScanRows
from stele.rpc.service import Reply
from stele.rpc.sync import SyncStream


class RemoteScan:
    """Holds at most one window of the stream. One thread reads it at a time."""

    def __init__(self, link: RemoteLink, request: ScanRows, timeout_us: int | None) -> None:
        self._link = link
        self._stream = SyncStream(link.thread, link.stream(SCAN, request, timeout_us))
        self._closed = False
        self._explained: dict[str, Any] | None = None
        self._counts = {"batches": 0, "cells": 0}
        first = self._next_part()
        if first is None:
            raise UnsupportedFormat("a scan ended before it said its txn")
        self.schema_version = first.message.schema_version
        self._txn = first.message.txn

    @property
    def txn(self) -> int:
        """The txn of the last batch."""
        return self._txn

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._explained is not None or self._closed:
            raise StopIteration
        part = self._next_part()
        if part is None:
            raise UnsupportedFormat("a scan ended without saying that it was complete")
        self._txn = part.message.txn
        if not part.attachments:
            self._explained = part.message.explain or {}
            raise StopIteration
        batch = decode_ipc(memoryview(part.attachments[0]), schemas=(CELLS,))
        self._counts["batches"] += 1
        self._counts["cells"] += batch.num_rows
        return batch

    def close(self) -> None:
        """Stop reading, here and there."""
        self._closed = True
        self._stream.close()

    def explain(self) -> dict[str, Any]:
        """What the store read, known at the end of the scan; until then what has come."""
        return dict(self._counts) if self._explained is None else self._explained

    def _next_part(self) -> Reply[ScanPart] | None:
        try:
            return self._stream.next_reply()
        except StopIteration:
            return None
        except Unavailable as error:
            raise self._link.explained(error) from error
