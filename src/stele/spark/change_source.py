"""``format("stele")`` as a feed of changes: the batch reader and the stream reader of Spark.

Spark makes a reader in a process of its own and, for every task, another from the pickled source:
so a reader holds nothing but options until one of its driver's methods is called.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructField, StructType

from stele.errors import InvalidArgument
from stele.spark.change_options import ChangeOptions, ChangeRequest
from stele.spark.change_stream import ChangeStream
from stele.spark.change_tasks import make_change_tasks, run_change_task
from stele.spark.pinning import PinKeeper
from stele.spark.source_fields import check_fields
from stele.spark.spark_types import spark_schema
from stele.spark.world import CLOCK, TASKS
from stele.storage.change_counts import ChangeLimits
from stele.storage.read_plan import ReadPlan

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2, which has neither this trigger nor limits for sources
    SupportsTriggerAvailableNow = object

TXN, TABLE = "txn", "table"
"""What an offset consists of: how far, and the id of the table it is a txn of. A table that was
made anew under the same name is another one, whose changes do not follow from it."""

Offset = dict[str, Any]


def feed_schema(options: ChangeOptions) -> StructType:
    """The columns of a feed's lines."""
    request = options.request()
    with options.address.open() as table:
        fields = spark_schema(request.telling(table.schema).schema).fields
    first = fields[0]
    fields[0] = StructField(first.name, first.dataType, first.nullable, options.metadata)
    return StructType(fields)


class ChangesReader(DataSourceReader):  # type: ignore[misc]  # PySpark has no types for us
    """One range of changes, read once."""

    def __init__(self, options: ChangeOptions, schema: StructType):
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Pin the range, and cut it into tasks."""
        options = self._options
        request = options.request()
        with options.address.open() as table:
            since = options.since(table)
            plan = table.core.backend.pin_changes(since, options.until(), options.lease_us)
        found = _partitions(plan, since, plan.txn, request, self._schema)
        # An empty list would become one partition that nobody made.
        return found or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The lines of one task."""
        return iter(()) if partition.value is None else run_change_task(partition.value)


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream of changes. Its offsets are txns of one table."""

    def __init__(self, options: ChangeOptions, schema: StructType):
        self._options = options
        self._schema = schema
        self._request = options.request()
        self._limits = options.limits()
        self._stream_of_driver: ChangeStream | None = None
        self._last = 0

    @property
    def _stream(self) -> ChangeStream:
        if self._stream_of_driver is None:
            self._stream_of_driver = ChangeStream(self._options, PinKeeper(TASKS), CLOCK)
        return self._stream_of_driver

    def _txn(self, offset: Offset) -> int:
        """Where an offset is, once it is known to be of the table that the stream follows."""
        self._stream.follow(offset.get(TABLE))
        return int(offset[TXN])

    def _offset(self, txn: int) -> Offset:
        return {TXN: txn, TABLE: self._stream.table}

    def initialOffset(self) -> Offset:  # noqa: N802 -- of Spark
        """Where a new query begins."""
        return self._offset(self._stream.initial())

    def latestOffset(  # noqa: N802 -- of Spark
        self, start: Offset | None = None, limit: Any = None
    ) -> Offset:
        """Where the next batch ends. Before Spark 4.2 nobody says where it begins."""
        since = self._last or self._stream.initial() if start is None else self._txn(start)
        self._last = self._stream.next(since, self._admitted(limit))
        return self._offset(self._last)

    def _admitted(self, limit: Any) -> ChangeLimits:
        """What Spark allows: all that is there, or what the options say."""
        return ChangeLimits() if type(limit).__name__ == "ReadAllAvailable" else self._limits

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 -- of Spark
        """What the options say, as Spark calls it; of two limits it hears of one."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

        if self._limits.mutations is not None:
            return ReadMaxRows(self._limits.mutations)
        if self._limits.size_bytes is not None:
            return ReadMaxBytes(self._limits.size_bytes)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 -- of Spark
        """How far the table is, for the progress of the query."""
        return self._offset(self._stream.reached) if self._stream.reached else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- of Spark
        """Go no further than what is there now."""
        self._stream.stop_at_present()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The tasks of a batch, on whichever object Spark asks for them."""
        since, until = self._txn(start), self._txn(end)
        if since >= until:
            return []
        plan = self._stream.plan(since, until)
        return _partitions(plan, since, until, self._request, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The lines of one task."""
        return run_change_task(partition.value)

    def commit(self, end: Offset) -> None:
        """A batch is done for good."""
        self._stream.commit(end[TXN])

    def stop(self) -> None:
        """The query has ended; its last pin lasts for as long as its lease says."""
        if self._stream_of_driver is not None:
            self._stream_of_driver.stop()


def _partitions(
    plan: ReadPlan, since: int, until: int, request: ChangeRequest, wanted: StructType
) -> list[InputPartition]:
    fields = check_fields(request.telling(plan.schema).schema, wanted)
    tasks = make_change_tasks(plan, since, until, request, os.cpu_count() or 1, fields)
    return [InputPartition(task) for task in tasks]


def no_feed() -> InvalidArgument:
    """What a stream without any option of a feed is told."""
    return InvalidArgument(
        "a stream of format 'stele' is a feed of changes, whose lines say what happened: give the "
        "option changes='net' (rows before and after) or changes='all' (every mutation)"
    )
