"""Writers of ``format("stele")``: what Spark calls, in which process, and what makes it once.

Spark calls ``writer()`` in one Python process, ``write`` in those of tasks and ``commit`` in yet
another; none is the user's. The first opens the table, checks the columns and begins a job; tasks
open only files; the last opens the table again and commits. ``commit`` may take effect and then
fail: Spark calls ``abort`` after that too. So ``abort`` gives up a job, which changes nothing
about one that is committed, and deletes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from stele.errors import InvalidArgument, SteleError
from stele.model.numbered_writes import NumberedWrite
from stele.spark.addresses import TableAddress
from stele.spark.write_commit import commit_parts, give_up
from stele.spark.write_options import WriteOptions
from stele.spark.write_task import WriteTask, WrittenPart, run_write
from stele.spark.writing import write_task

_TASKS = msgspec.msgpack.Decoder(WriteTask)
_PARTS = msgspec.msgpack.Decoder(WrittenPart)


@dataclass
class PartMessage(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no types for us
    """The answer of one task, on its way to the driver."""

    part: bytes


class SteleWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One write of a batch job. Spark sends it to every task and to who commits."""

    def __init__(self, address: TableAddress, task: bytes, write: NumberedWrite | None):
        self._address = address
        self._task = task
        self._write = write

    @staticmethod
    def begin(options: WriteOptions, fields: Any, *, overwrite: bool) -> SteleWriter:
        """Check everything that can be checked, and begin a job; before any task runs."""
        if overwrite and not options.truncates:
            raise InvalidArgument(
                "mode('overwrite') would remove all rows of the table: say so with "
                "option('truncate', 'true'), or write with mode('append')"
            )
        if options.truncates and not overwrite:
            raise InvalidArgument("the option 'truncate' is for mode('overwrite')")
        write = options.write
        with options.address.open() as handle:
            form = options.form(handle.schema, fields)
            ticket = handle.core.backend.begin_import(uuid.uuid4().hex, options.lease_us)
            task = write_task(handle, form, ticket, replaces=overwrite)
        return SteleWriter(options.address, msgspec.msgpack.encode(task), write)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartMessage:
        """What a task does with its lines."""
        return PartMessage(run_task(self._task, iterator))

    def commit(self, messages: Sequence[PartMessage | None]) -> None:
        """One commit of all that counts."""
        with self._address.open() as handle:
            commit_parts(handle, _TASKS.decode(self._task), parts_of(messages), self._write)

    def abort(self, messages: Sequence[PartMessage | None]) -> None:  # noqa: ARG002
        """Give the job up, unless it happened after all."""
        with suppress(SteleError), self._address.open() as handle:
            give_up(handle, _TASKS.decode(self._task))


def run_task(task: bytes, batches: Iterator[pa.RecordBatch]) -> bytes:
    """The answer of the task that this process runs."""
    context = TaskContext.get()
    assert context is not None, "a write runs in tasks"
    part = run_write(_TASKS.decode(task), batches, context.partitionId(), context.taskAttemptId())
    return msgspec.msgpack.encode(part)


def parts_of(messages: Sequence[PartMessage | None]) -> list[WrittenPart]:
    """The answers in messages; a task that failed has none."""
    return [_PARTS.decode(message.part) for message in messages if message is not None]
