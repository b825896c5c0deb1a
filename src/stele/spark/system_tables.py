"""What a database knows of itself, as DataFrames: one line for each thing, of this moment.

The driver asks the owner and the metastore; the lines are small and travel with the plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa

from stele.client.database import Database
from stele.coordination.on_metastore import JOBS, LEASES, decode_record
from stele.coordination.records import JobRecord, LeaseRecord
from stele.errors import InvalidArgument
from stele.spark.addresses import open_at
from stele.spark.native import Frame
from stele.storage.references import Reference

PIN_US = 60_000_000
"""Longer than it takes to list the references of a table, which is when the pin is released."""

Line = dict[str, Any]

_TEXT, _NUMBER, _BYTES, _TRUTH = pa.string(), pa.int64(), pa.binary(), pa.bool_()


def tables(database: Database) -> Iterator[Line]:
    """Every table of the catalog, those too that were dropped and can come back."""
    for dropped in (False, True):
        for info in database.catalog(dropped=dropped):
            yield {
                "table_id": info.id,
                "name": info.name,
                "dropped": dropped,
                "schema_version": info.schema.version,
                "groups": [group.name for group in info.schema.groups],
                "columns": [str(typed.column) for typed in info.schema.columns],
                "history_us": info.schema.history_us,
            }


def tablets(database: Database) -> Iterator[Line]:
    """Every tablet of every table, in row order."""
    for name in database.tables():
        for tablet in database.table(name).tablets():
            yield {
                "table": name,
                "tablet_id": tablet.id,
                "start_row": tablet.rows.start,
                "end_row": tablet.rows.end,
                "state": tablet.state,
                "fragments": tablet.fragments,
                "size_bytes": tablet.size_bytes,
            }


def fragments(database: Database) -> Iterator[Line]:
    """Every file as every tablet sees it, with what is in memory as the file it would become."""
    for name in database.tables():
        backend = database.table(name).core.backend
        plan = backend.pin(None, PIN_US)
        backend.release_pin(plan.lease)
        for tablet in plan.tablets:
            for reference in tablet.references:
                yield {"table": name, **_fragment(reference)}


def _fragment(reference: Reference) -> Line:
    file = reference.file
    summary = file.summary
    return {
        "file": file.name,
        "companion": None if file.companion is None else file.companion.name,
        "layout": file.layout,
        "start_row": reference.rows.start,
        "end_row": reference.rows.end,
        "families": list(reference.families),
        "txn": reference.txn,
        "rows": summary.rows,
        "cells": summary.cells,
        "erasures": summary.erasures.total,
        "size_bytes": sum(part.size for part in file.files),
        "first_row": summary.first_row,
        "last_row": summary.last_row,
        "txn_min": summary.txn_min,
        "txn_max": summary.txn_max,
    }


def leases(database: Database) -> Iterator[Line]:
    """Every lease that holds history and files: snapshots have a name, pins run out."""
    for item in database.metastore.range(LEASES):
        lease = decode_record(item, LeaseRecord)
        yield {
            "name": lease.name,
            "table_id": lease.table,
            "txn": lease.txn,
            "created_us": lease.created_us,
            "expires_us": lease.expires_us,
            "files": len(lease.files),
        }


def jobs(database: Database) -> Iterator[Line]:
    """Every import that is under way, and those whose outcome is still remembered."""
    for item in database.metastore.range(JOBS):
        job = decode_record(item, JobRecord)
        yield {
            "job": job.name,
            "table_id": job.table,
            "state": job.state.value,
            "created_us": job.created_us,
            "expires_us": job.expires_us,
            "txn": job.txn or None,
        }


def operations(database: Database) -> Iterator[Line]:
    """What the owner of the directory does now, and has done lately."""
    for operation in database.operations():
        yield {
            **msgspec.structs.asdict(operation),
            "operation_id": operation.id,
            "tablet_id": operation.tablet,
        }


SYSTEM_TABLES: dict[str, tuple[Callable[[Database], Iterator[Line]], dict[str, pa.DataType]]] = {
    "tables": (
        tables,
        {
            "table_id": _TEXT,
            "name": _TEXT,
            "dropped": _TRUTH,
            "schema_version": _NUMBER,
            "groups": pa.list_(_TEXT),
            "columns": pa.list_(_TEXT),
            "history_us": _NUMBER,
        },
    ),
    "tablets": (
        tablets,
        {
            "table": _TEXT,
            "tablet_id": _TEXT,
            "start_row": _BYTES,
            "end_row": _BYTES,
            "state": _TEXT,
            "fragments": _NUMBER,
            "size_bytes": _NUMBER,
        },
    ),
    "fragments": (
        fragments,
        {
            "table": _TEXT,
            "file": _TEXT,
            "companion": _TEXT,
            "layout": _TEXT,
            "start_row": _BYTES,
            "end_row": _BYTES,
            "families": pa.list_(_TEXT),
            "txn": _NUMBER,
            "rows": _NUMBER,
            "cells": _NUMBER,
            "erasures": _NUMBER,
            "size_bytes": _NUMBER,
            "first_row": _BYTES,
            "last_row": _BYTES,
            "txn_min": _NUMBER,
            "txn_max": _NUMBER,
        },
    ),
    "leases": (
        leases,
        {
            "name": _TEXT,
            "table_id": _TEXT,
            "txn": _NUMBER,
            "created_us": _NUMBER,
            "expires_us": _NUMBER,
            "files": _NUMBER,
        },
    ),
    "jobs": (
        jobs,
        {
            "job": _TEXT,
            "table_id": _TEXT,
            "state": _TEXT,
            "created_us": _NUMBER,
            "expires_us": _NUMBER,
            "txn": _NUMBER,
        },
    ),
    "operations": (
        operations,
        {
            "operation_id": _NUMBER,
            "kind": _TEXT,
            "table": _TEXT,
            "tablet_id": _TEXT,
            "detail": _TEXT,
            "state": _TEXT,
            "started_us": _NUMBER,
            "ended_us": _NUMBER,
            "bytes_in": _NUMBER,
            "bytes_out": _NUMBER,
            "cells": _NUMBER,
            "error": _TEXT,
        },
    ),
}
"""Each by its name: where its lines come from, and its columns."""


def system_lines(database: Database | str | os.PathLike[str], name: str) -> pa.Table:
    """A system table as Arrow."""
    if name not in SYSTEM_TABLES:
        known = ", ".join(SYSTEM_TABLES)
        raise InvalidArgument(f"there is no system table {name!r:.80}; there are {known}")
    lines, columns = SYSTEM_TABLES[name]
    with _opened(database) as opened:
        return pa.Table.from_pylist(list(lines(opened)), schema=pa.schema(list(columns.items())))


def system(spark: Any, database: Database | str | os.PathLike[str], name: str) -> Frame:
    """A DataFrame of what a database knows of itself: see ``SYSTEM_TABLES`` for the names."""
    return spark.createDataFrame(system_lines(database, name))


@contextmanager
def _opened(database: Database | str | os.PathLike[str]) -> Iterator[Database]:
    if isinstance(database, Database):
        yield database
    elif isinstance(database, str | os.PathLike):
        with open_at(os.path.abspath(database)) as opened:
            yield opened
    else:
        raise InvalidArgument(
            f"a database is what stele.open gives, or its directory, not {database!r:.80}"
        )
