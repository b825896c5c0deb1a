"""``format("stele")``: the portable face, for SQL and for sessions that are not ours.

Spark runs each method in a Python worker of its own, none of which is the user's process. The first
opens the database for the schema, the second pins a snapshot and plans, the tasks open only files.

There is no push-down of filters here, on purpose: Spark keeps the planned reader on the shared
source, so the second use of a DataFrame would get the rows of the first one's filter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from stele.errors import InvalidArgument
from stele.spark.change_options import ChangeOptions, is_feed
from stele.spark.change_source import ChangesReader, ChangesStreamReader, feed_schema, no_feed
from stele.spark.options import ReadOptions, from_metadata, overlaid
from stele.spark.partition_policy import cut_evenly, merged_bytes, wanted_partitions
from stele.spark.routes import relevant
from stele.spark.source_fields import check_fields
from stele.spark.spark_types import spark_schema
from stele.spark.tasks import make_tasks, run_task
from stele.spark.write_options import WriteOptions


class SteleDataSource(DataSource):  # type: ignore[misc]  # PySpark has no types for us
    """A table as a data source; see ``docs/guide/spark.md`` for the options."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` calls it."""
        return "stele"

    def schema(self) -> StructType:
        """The columns of the table, or of its changes, in the shape that is asked for."""
        if is_feed(self.options):
            return feed_schema(ChangeOptions.of(self.options))
        options = ReadOptions.parse(self.options)
        request = options.request()
        with options.address.open() as table:
            fields = spark_schema(request.converter(table.schema).arrow_schema).fields
        first = fields[0]
        fields[0] = StructField(first.name, first.dataType, first.nullable, options.metadata())
        return StructType(fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in ``schema``."""
        options = self._overlaid(schema)
        if is_feed(options):
            return ChangesReader(ChangeOptions.parse(options, streaming=False), schema)
        return SteleReader(ReadOptions.parse(options), schema)

    def streamReader(self, schema: StructType) -> ChangesStreamReader:  # noqa: N802 -- of Spark
        """A reader of the changes of a table, as they come."""
        options = self._overlaid(schema)
        if not is_feed(options):
            raise no_feed()
        return ChangesStreamReader(ChangeOptions.parse(options, streaming=True), schema)

    def _overlaid(self, schema: StructType) -> dict[str, str]:
        """Options that are given with a statement count more than those of CREATE TABLE."""
        kept = from_metadata(schema.fields[0].metadata) if schema.fields else {}
        return overlaid(kept, dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """A writer of rows or cells with the columns in ``schema``."""
        from stele.spark.sink import SteleWriter

        options = WriteOptions.parse(self.options)
        return SteleWriter.begin(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        """A writer of the batches of a stream."""
        try:
            from stele.spark.stream_sink import SteleStreamWriter
        except ImportError as error:
            raise InvalidArgument(
                "streams into 'stele' need Spark 4.1 or newer: pip install -U 'steledb[spark]'"
            ) from error
        if overwrite:
            raise InvalidArgument(
                "outputMode('complete') replaces the table with every batch: use 'append' or "
                "'update', which writes rows anew that have changed"
            )
        return SteleStreamWriter(WriteOptions.parse(self.options), schema)


class SteleReader(DataSourceReader):  # type: ignore[misc]
    """One snapshot of one table. Spark plans it once and sends it to every task."""

    def __init__(self, options: ReadOptions, schema: StructType):
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Pin, and cut into tasks; each carries its part of the snapshot."""
        options = self._options
        request = options.request()
        with options.address.open() as table:
            fields = check_fields(request.converter(table.schema).arrow_schema, self._schema)
            plan = table.core.backend.pin(options.at(table), options.lease_us)
        tablets, ranges = relevant(plan, request), request.spec.ranges
        wanted = request.partitions or wanted_partitions(
            merged_bytes(tablets, ranges), os.cpu_count() or 1
        )
        tasks = make_tasks(plan, request, cut_evenly(tablets, ranges, wanted), fields)
        # An empty list would become one partition that nobody made.
        return [InputPartition(task) for task in tasks] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The lines of one task."""
        return iter(()) if partition.value is None else run_task(partition.value)
