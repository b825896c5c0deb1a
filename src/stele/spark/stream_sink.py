"""The streaming sink: each batch of a query is one commit, and is made once.

A batch is known by the id of its query, which its checkpoint keeps, and its number. Both are local
properties of tasks and nowhere else, so tasks put them into their answers. The number is committed
with the data; a batch that is replayed, by whichever application, finds it.

Spark makes a writer for the tasks of each batch, and another one, in another process, to commit
what they answer. Only the first is pickled, on its way to the tasks: that is when its job begins.
Both check the columns when they are made, so that a table that was altered is told in one sentence.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from stele.errors import InvalidArgument, SteleError
from stele.model.numbered_writes import NumberedWrite
from stele.spark.sink import PartMessage, parts_of, run_task
from stele.spark.write_commit import commit_parts, give_up
from stele.spark.write_options import WriteOptions
from stele.spark.write_task import WriteTask
from stele.spark.writing import write_task

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties that Spark gives to the tasks of a batch."""

_TASKS = msgspec.msgpack.Decoder(WriteTask)


@dataclass
class BatchMessage(PartMessage):
    """The answer of one task of a batch, with what tells the batch apart."""

    task: bytes
    query: str
    batch: int


class SteleStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """One batch of a query: either its tasks, or its commit."""

    def __init__(self, options: WriteOptions, fields: Any):
        for name in ("txnAppId", "truncate"):
            if name in options.given:
                raise InvalidArgument(
                    f"the option {name!r} is for batch writes: a stream numbers its batches itself"
                )
        self._lease_us = options.lease_us
        self._task: bytes | None = None
        with ExitStack() as opened:
            self._table = opened.enter_context(options.address.open())
            self._form = options.form(self._table.schema, fields)
            self._opened = opened.pop_all()

    def __getstate__(self) -> dict[str, bytes]:
        """On its way to tasks: they get a job to write for, and the table is not needed here."""
        if self._task is None:
            with self._opened:
                backend = self._table.core.backend
                ticket = backend.begin_import(uuid.uuid4().hex, self._lease_us)
                self._task = msgspec.msgpack.encode(write_task(self._table, self._form, ticket))
        return {"_task": self._task}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchMessage:
        """What a task does with its lines."""
        assert self._task is not None, "it came here by pickle"
        context = TaskContext.get()
        assert context is not None, "a write runs in tasks"
        query, batch = (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
        if query is None or batch is None:
            raise InvalidArgument("Spark says no query and no batch: this is no task of a stream")
        part = run_task(self._task, iterator)
        return BatchMessage(part, task=self._task, query=query, batch=int(batch))

    def commit(self, messages: Sequence[BatchMessage | None], batchId: int) -> None:  # noqa: N803
        """One commit of all that counts, unless the batch was committed before."""
        with self._opened:
            first = next((message for message in messages if message is not None), None)
            if first is None:
                return  # a batch without partitions has nothing to publish, and no name
            assert first.batch == batchId, "tasks and driver speak of the same batch"
            write = NumberedWrite(f"query {first.query}", batchId)
            commit_parts(self._table, _TASKS.decode(first.task), parts_of(messages), write)

    def abort(self, messages: Sequence[BatchMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Give the job up, unless it happened after all."""
        with self._opened, suppress(SteleError):
            for message in messages:
                if message is not None:
                    give_up(self._table, _TASKS.decode(message.task))
                    return
