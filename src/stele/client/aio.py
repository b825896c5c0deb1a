"""The same database for asyncio: a thin shell over the blocking one.

Writes never block in the store, so they are started in the event loop and awaited through the
callback of their commit. Reads, and reads before writes, may touch the disk: they run in a small
pool of threads. Whoever is cancelled stops waiting; a write that was started is not taken back.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, Self

from stele.client.aio_batch import AsyncBatch
from stele.client.aio_scan import AsyncScan
from stele.client.aio_waiting import Workers, durable, insist_in_line
from stele.client.backend import KEPT_DEFAULT, TableInfo, TabletInfo
from stele.client.bulk import InputShape
from stele.client.changes import Changes
from stele.client.closing import AsyncClosing
from stele.client.database import Database
from stele.client.encoder import Columns, Key, Values
from stele.client.metastore_aio import AsyncMetastore
from stele.client.rows import Rows
from stele.client.scan import Shape
from stele.client.table import SAMPLES_DEFAULT, Table
from stele.client.table_core import Filters
from stele.client.table_files import TableFiles
from stele.client.times import At, Moment, TimeRange
from stele.client.transaction import TransactionCore
from stele.client.updates import Conditions
from stele.client.waiting import Timeout
from stele.model.arrow_input import NullRule
from stele.model.mutations import MutationBatch
from stele.model.operations import Operation
from stele.model.predicates import ScanMode
from stele.model.row import ColumnName, Row
from stele.model.schema import Schema
from stele.storage.change_lines import ChangeMode

P = ParamSpec("P")


class AsyncTransaction:
    """Made by ``AsyncTable.transaction``, used in an ``async with`` by one task."""

    def __init__(self, inner: TransactionCore, workers: Workers) -> None:
        self._inner = inner
        self._workers = workers

    @property
    def txn(self) -> int | None:
        """The txn of the commit, once there is one."""
        return self._inner.txn

    async def get(
        self,
        columns: Columns = None,
        *,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
    ) -> Row | None:
        """The row as it is at the moment of the first ``get``."""
        inner = self._inner
        spec = inner.core.cell_spec(columns, versions, time, filters, cells_per_row, None)
        return await self._workers.run(inner.read, spec)

    def put(self, values: Values, *, timestamp: Moment | None = None) -> None:
        """Write columns of the row when the transaction commits."""
        self._inner.put(values, timestamp)

    def delete(
        self,
        columns: Columns = None,
        *,
        until: Moment | None = None,
        timestamp: Moment | None = None,
    ) -> None:
        """Erase the row, or columns of it, when the transaction commits."""
        self._inner.delete(columns, until, timestamp)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        inner = self._inner
        if kind is not None:
            inner.ended = True
            return
        # A store in another process is asked whether the row is stale: that may take a moment.
        pending = await self._workers.run(inner.start_commit)
        if pending is not None:
            inner.txn = await durable(pending, inner.deadline)


class AsyncTable:
    """One table, for coroutines; the calls are those of ``Table``."""

    def __init__(self, table: Table, workers: Workers) -> None:
        self._table = table
        self._core = table.core
        self._workers = workers

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    @property
    def id(self) -> str:
        """What tells the table apart for ever."""
        return self._table.id

    @property
    def schema(self) -> Schema:
        """The schema as it is now."""
        return self._table.schema

    def __repr__(self) -> str:
        return f"AsyncTable({self.name!r})"

    async def put(
        self,
        key: Key,
        values: Values,
        *,
        timestamp: Moment | None = None,
        timeout: Timeout = None,
    ) -> int:
        """Write columns of one row, atomically; the txn, once it is durable."""
        return await self._commit(self._core.put_request(key, values, timestamp), timeout)

    async def delete(
        self,
        key: Key,
        columns: Columns = None,
        *,
        until: Moment | None = None,
        timestamp: Moment | None = None,
        timeout: Timeout = None,
    ) -> int:
        """Erase a row, or the given columns and families of it; the txn."""
        request = self._core.delete_request(key, columns, until, timestamp)
        return await self._commit(request, timeout)

    async def _commit(self, request: MutationBatch, timeout: Timeout) -> int:
        deadline = self._core.world.deadline(timeout)
        pending = await insist_in_line(
            deadline,
            lambda ticket: self._core.apply(request, deadline, ticket=ticket),
            self._core.backend.admission_ticket,
        )
        return await durable(pending, deadline)

    def batch(self, *, timeout: Timeout = None) -> AsyncBatch:
        """Many puts and deletes, buffered, durable at the end of the ``async with``."""
        self._core.handle.check()
        return AsyncBatch(self._core, timeout)

    async def write(
        self,
        data: object,
        *,
        row: str | Sequence[str] | None = None,
        nulls: NullRule = "skip",
        shape: InputShape | None = None,
        atomic: bool = False,
        timeout: Timeout = None,
    ) -> int:
        """Write an Arrow table, a DataFrame or another Arrow stream; see ``Table.write``."""
        return await self._workers.run(
            self._table.write,
            data,
            row=row,
            nulls=nulls,
            shape=shape,
            atomic=atomic,
            timeout=timeout,
        )

    async def get(
        self,
        key: Key,
        columns: Columns = None,
        *,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
        at: At = None,
        timeout: Timeout = None,
    ) -> Row | None:
        """One row, or ``None``; see ``Table.get``."""
        return await self._workers.run(
            self._table.get,
            key,
            columns,
            versions=versions,
            time=time,
            filters=filters,
            cells_per_row=cells_per_row,
            at=at,
            timeout=timeout,
        )

    async def get_many(
        self,
        keys: Iterable[Key],
        columns: Columns = None,
        *,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
        at: At = None,
        timeout: Timeout = None,
    ) -> Rows:
        """Many rows by key, all of one moment; see ``Table.get_many``."""
        return await self._workers.run(
            self._table.get_many,
            keys,
            columns,
            versions=versions,
            time=time,
            filters=filters,
            cells_per_row=cells_per_row,
            at=at,
            timeout=timeout,
        )

    def scan(
        self,
        rows: object = None,
        columns: Columns = None,
        *,
        prefix: object = None,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
        at: At = None,
        limit: int | None = None,
        reverse: bool = False,
        mode: ScanMode = "snapshot",
        shape: Shape = "cells",
        timeout: Timeout = None,
    ) -> AsyncScan:
        """Rows in key order; see ``Table.scan``."""
        scan = self._table.scan(
            rows,
            columns,
            prefix=prefix,
            versions=versions,
            time=time,
            filters=filters,
            cells_per_row=cells_per_row,
            at=at,
            limit=limit,
            reverse=reverse,
            mode=mode,
            shape=shape,
            timeout=timeout,
        )
        return AsyncScan(scan, self._workers)

    async def mutate_if(
        self,
        key: Key,
        conditions: Conditions,
        *,
        put: Values | None = None,
        delete: Columns | bool = None,
        timeout: Timeout = None,
    ) -> int | None:
        """Write if every column has the value given; see ``Table.mutate_if``."""
        return await self._workers.run(
            self._table.mutate_if, key, conditions, put=put, delete=delete, timeout=timeout
        )

    async def increment(
        self, key: Key, column: ColumnName, by: int = 1, *, timeout: Timeout = None
    ) -> int:
        """Add to a counter; its new value."""
        return await self._workers.run(self._table.increment, key, column, by, timeout=timeout)

    async def append(
        self, key: Key, column: ColumnName, tail: bytes | str, *, timeout: Timeout = None
    ) -> bytes:
        """Lengthen a value of bytes or text; all its bytes now."""
        return await self._workers.run(self._table.append, key, column, tail, timeout=timeout)

    def transaction(self, key: Key, *, timeout: Timeout = None) -> AsyncTransaction:
        """Read and write one row, unless others write it meanwhile: then ``StaleRow``."""
        self._core.handle.check()
        return AsyncTransaction(TransactionCore(self._core, key, timeout), self._workers)

    async def tablets(self, *, timeout: Timeout = None) -> tuple[TabletInfo, ...]:
        """The tablets, in row order."""
        return await self._workers.run(self._table.tablets, timeout=timeout)

    async def sample_keys(
        self, count: int = SAMPLES_DEFAULT, *, timeout: Timeout = None
    ) -> list[bytes]:
        """Row keys that cut the table into parts of about equal size."""
        return await self._workers.run(self._table.sample_keys, count, timeout=timeout)

    async def split(self, key: Key, *, timeout: Timeout = None) -> None:
        """Make ``key`` the first row of a tablet."""
        await self._workers.run(self._table.split, key, timeout=timeout)

    async def join(self, key: Key, *, timeout: Timeout = None) -> None:
        """Join the tablet that begins at ``key`` with the one before it."""
        await self._workers.run(self._table.join, key, timeout=timeout)

    async def flush(self, *, timeout: Timeout = None) -> None:
        """Write everything in memory to files."""
        await self._workers.run(self._table.flush, timeout=timeout)

    async def compact(self, rows: object = None, *, timeout: Timeout = None) -> None:
        """Rewrite the files of all tablets that overlap ``rows``."""
        await self._workers.run(self._table.compact, rows, timeout=timeout)

    async def truncate(self, rows: object = None, *, timeout: Timeout = None) -> None:
        """Remove all cells of ``rows``, and their history."""
        await self._workers.run(self._table.truncate, rows, timeout=timeout)

    async def files(self, *, at: At = None, lease: str = "1h") -> TableFiles:
        """The table's Parquet files for other tools; see ``Table.files``. What is returned is for
        a plain ``with``: reading files takes a thread anyway."""
        return await self._workers.run(self._table.files, at=at, lease=lease)

    async def changes(
        self,
        since: At = 0,
        until: At = None,
        *,
        rows: object = None,
        columns: Columns = None,
        prefix: object = None,
        mode: ChangeMode = "net",
        shape: Shape = "cells",
        versions: int | None = 1,
        lease: str = "1h",
    ) -> Changes:
        """What changed between two moments; see ``Table.changes``. What is returned is for a plain
        ``with``: reading files takes a thread anyway."""
        return await self._workers.run(
            self._table.changes,
            since,
            until,
            rows=rows,
            columns=columns,
            prefix=prefix,
            mode=mode,
            shape=shape,
            versions=versions,
            lease=lease,
        )

    async def snapshot(self, name: str, *, timeout: Timeout = None) -> int:
        """Keep the table as it is now readable under ``name``."""
        return await self._workers.run(self._table.snapshot, name, timeout=timeout)

    async def drop_snapshot(self, name: str, *, timeout: Timeout = None) -> None:
        """Let go of a snapshot."""
        await self._workers.run(self._table.drop_snapshot, name, timeout=timeout)

    async def snapshots(self, *, timeout: Timeout = None) -> dict[str, int]:
        """Names and txns of the snapshots."""
        return await self._workers.run(self._table.snapshots, timeout=timeout)

    async def clone(self, new_name: str, *, timeout: Timeout = None) -> AsyncTable:
        """A writable copy under a new name."""
        clone = await self._workers.run(self._table.clone, new_name, timeout=timeout)
        return AsyncTable(clone, self._workers)


class AsyncDatabase(AsyncClosing):
    """What ``stele.aio.open`` gives; the calls are those of ``Database``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._workers = Workers()
        self._metastore: AsyncMetastore | None = None

    async def tables(self, *, dropped: bool = False) -> list[str]:
        """The names of all tables, or of those that were dropped and can come back."""
        return await self._workers.run(self._database.tables, dropped=dropped)

    async def catalog(self, *, dropped: bool = False) -> tuple[TableInfo, ...]:
        """The tables with their ids and schemas."""
        return await self._workers.run(self._database.catalog, dropped=dropped)

    async def table(self, name: str) -> AsyncTable:
        """An existing table."""
        return await self._table(self._database.table, name)

    async def create_table(
        self,
        name: str,
        schema: Schema | None = None,
        splits: Iterable[Key] = (),
        *,
        timeout: Timeout = None,
    ) -> AsyncTable:
        """A new table, cut into tablets at the keys ``splits``."""
        return await self._table(self._database.create_table, name, schema, splits, timeout=timeout)

    async def alter_table(
        self, name: str, schema: Schema, *, timeout: Timeout = None
    ) -> AsyncTable:
        """Give a table another schema."""
        return await self._table(self._database.alter_table, name, schema, timeout=timeout)

    async def rename_column(
        self, name: str, column: ColumnName, label: str, *, timeout: Timeout = None
    ) -> AsyncTable:
        """Let Arrow tables and DataFrames call a declared column ``label``."""
        return await self._table(self._database.rename_column, name, column, label, timeout=timeout)

    async def drop_table(
        self, name: str, *, keep: str | datetime.timedelta = KEPT_DEFAULT, timeout: Timeout = None
    ) -> None:
        """Stop serving a table."""
        await self._workers.run(self._database.drop_table, name, keep=keep, timeout=timeout)

    async def undrop_table(self, name: str, *, timeout: Timeout = None) -> AsyncTable:
        """Bring back the table of that name that was dropped last."""
        return await self._table(self._database.undrop_table, name, timeout=timeout)

    async def rename_table(
        self, name: str, new_name: str, *, timeout: Timeout = None
    ) -> AsyncTable:
        """Call a table by another name."""
        return await self._table(self._database.rename_table, name, new_name, timeout=timeout)

    async def clone_table(self, name: str, new_name: str, *, timeout: Timeout = None) -> AsyncTable:
        """A writable copy of a table."""
        return await self._table(self._database.clone_table, name, new_name, timeout=timeout)

    async def _table(
        self, call: Callable[P, Table], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncTable:
        return AsyncTable(await self._workers.run(call, *args, **kwargs), self._workers)

    @property
    def metastore(self) -> AsyncMetastore:
        """The store of paths, transactions, sessions, locks and watches below the database."""
        if self._metastore is None:
            self._metastore = self._database.metastore.for_coroutines()
        return self._metastore

    async def status(self) -> dict[str, Any]:
        """Memory, log, cache, sessions and workers in numbers."""
        return await self._workers.run(self._database.status)

    async def operations(self) -> tuple[Operation, ...]:
        """What the owner of the tables does now, and has done lately."""
        return await self._workers.run(self._database.operations)

    async def close(self) -> None:
        """Make everything durable and let go of the directory. Harmless when closed already."""
        if self._workers.is_closed:
            return
        try:
            if self._metastore is not None:
                await self._metastore.close()
            await self._workers.run(self._database.close)
        finally:
            self._workers.close()
