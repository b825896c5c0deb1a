"""``ss.write``: a DataFrame's rows or cells become part of a table, at one txn and once.

The same tasks and the same commit as ``df.write.format("stele")``; but the driver is this process,
so it can say what was done, keep the job alive for as long as it takes, and tell errors in the
words of this package.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from stele.client.table import Table
from stele.errors import InvalidArgument
from stele.model.arrow_input import NullRule
from stele.model.durations import parse_duration
from stele.model.numbered_writes import NumberedWrite
from stele.model.schema_json import schema_to_json
from stele.spark.frames import column_types
from stele.spark.jobs import begun_job
from stele.spark.loading import TTL_DEFAULT, Report
from stele.spark.reading import TableLike, opened
from stele.spark.spark_types import spark_schema
from stele.spark.world import CLOCK
from stele.spark.write_commit import commit_parts
from stele.spark.write_form import FORMS, WriteForm, arrow_schema, write_form
from stele.spark.write_mutations import check_fit
from stele.spark.write_options import app_write
from stele.spark.write_task import WriteTask, WrittenPart, run_write
from stele.storage.import_files import ImportTicket

_ANSWERS = pa.schema([("part", pa.binary())])
_PARTS = msgspec.msgpack.Decoder(WrittenPart)


def write(
    df: Any,
    table: TableLike,
    *,
    row: str | Sequence[str] | None = None,
    family: str | None = None,
    timestamp: str | None = None,
    op: str | None = None,
    nulls: NullRule = "skip",
    shape: str | None = None,
    app_id: str | None = None,
    version: int | None = None,
    truncate: bool = False,
) -> Report:
    """Write a DataFrame into a table: all of it at one txn, or nothing of it.

    Lines are wide rows, whose columns mean what they mean in ``ss.bulk_load``, or cells (``row``,
    ``family``, ``qualifier``, ``value``, perhaps ``timestamp`` and ``op``); ``shape`` says which
    where the names of the columns do not. With ``app_id`` and ``version`` the write happens unless
    one of the same app with this version or a higher one has. ``truncate`` replaces all that is in
    the table: nobody ever sees neither the old rows nor the new ones, nor both. Small writes go
    into the log, large ones become files; ``ss.bulk_load`` is quicker for very large ones.
    """
    types = column_types(df)
    numbered = numbered_write(app_id, version)
    if shape not in (None, *FORMS):
        raise InvalidArgument(f"shape is one of {', '.join(FORMS)}; not {shape!r:.80}")
    with opened(table) as (handle, _):
        form = write_form(
            handle.schema,
            types,
            shape=shape,
            row=row,
            family=family,
            timestamp=timestamp,
            op=op,
            nulls=nulls,
        )
        return run_form(df, handle, form, numbered, replaces=truncate)


def numbered_write(app_id: str | None, version: int | None) -> NumberedWrite | None:
    """What a user calls a write, if anything."""
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        raise InvalidArgument("app_id and version belong together: give both, or neither")
    return app_write(app_id, version)


def run_form(
    df: Any,
    handle: Table,
    form: WriteForm,
    numbered: NumberedWrite | None,
    *,
    replaces: bool = False,
) -> Report:
    """Write the lines of a DataFrame that have this form."""
    check_fit(handle.schema, form, arrow_schema(df.schema))
    started = CLOCK.monotonic_us()
    job = uuid.uuid4().hex
    if numbered is not None:
        last = handle.core.backend.last_numbered(numbered.writer)
        if last is not None and last.sequence >= numbered.sequence:
            return Report(job, last.txn, done_before=True)
    with begun_job(handle, job, parse_duration(TTL_DEFAULT, "ttl")) as ticket:
        task = write_task(handle, form, ticket, replaces=replaces)
        done = commit_parts(handle, task, _run(df, task), numbered)
    return Report(
        job,
        done.txn,
        rows=done.lines,
        cells=done.cells,
        size_bytes=done.size_bytes,
        files=done.files,
        seconds=(CLOCK.monotonic_us() - started) / 1e6,
    )


def write_task(
    handle: Table, form: WriteForm, ticket: ImportTicket, *, replaces: bool = False
) -> WriteTask:
    """What tasks of a write have to know."""
    return WriteTask(
        ticket=ticket,
        table=handle.name,
        schema_json=schema_to_json(handle.schema).decode(),
        form=form,
        replaces=replaces,
    )


def _run(df: Any, task: WriteTask) -> list[WrittenPart]:
    """Let tasks make mutations of all lines; what they answer."""
    data = msgspec.msgpack.encode(task)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a write runs in tasks"
        own = msgspec.msgpack.decode(data, type=WriteTask)
        part = run_write(own, batches, context.partitionId(), context.taskAttemptId())
        answer = pa.array([msgspec.msgpack.encode(part)], pa.binary())
        yield pa.RecordBatch.from_arrays([answer], schema=_ANSWERS)

    lines = df.mapInArrow(run, spark_schema(_ANSWERS)).collect()
    return [_PARTS.decode(bytes(line["part"])) for line in lines]
