"""Stele for asyncio: ``db = await stele.aio.open(path)``, then the same calls with ``await``."""

from __future__ import annotations

import asyncio
import os
import threading

import stele
from stele.client.aio import AsyncDatabase, AsyncTable, AsyncTransaction
from stele.client.aio_batch import AsyncBatch
from stele.client.aio_scan import AsyncScan
from stele.client.metastore_aio import AsyncMetastore
from stele.client.metastore_connect import connect_async as connect_metastore
from stele.tablet.options import EngineOptions

__all__ = [
    "AsyncBatch",
    "AsyncDatabase",
    "AsyncMetastore",
    "AsyncScan",
    "AsyncTable",
    "AsyncTransaction",
    "connect_metastore",
    "open",
]


async def open(  # noqa: A001
    path: str | os.PathLike[str], options: EngineOptions | None = None, *, attach: bool = True
) -> AsyncDatabase:
    """Open the database in a directory; see ``stele.open``.

    Whoever is cancelled while it opens leaves nothing open behind.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(stele.open, path, options, attach=attach))
    try:
        return AsyncDatabase(await asyncio.shield(opening))
    except asyncio.CancelledError:
        opening.add_done_callback(_close_again)
        raise


def _close_again(opened: asyncio.Future[stele.Database]) -> None:
    """Nobody waits for the database any more; closing it may take a moment, so not in the loop."""
    if not opened.cancelled() and opened.exception() is None:
        threading.Thread(target=opened.result().close, name="stele-close").start()
