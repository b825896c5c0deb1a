"""Stele for asyncio: ``db = await stele.aio.open(path)``, then the same calls with ``await``."""

from __future__ import annotations

import asyncio
import os

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
    """Open the database in a directory; see ``stele.open``."""
    return AsyncDatabase(await asyncio.to_thread(stele.open, path, options, attach=attach))
