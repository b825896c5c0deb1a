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
from stele.spark.options import ReadOptions, from_metadata, overlaid
from stele.spark.partition_policy import cut_evenly, merged_bytes, wanted_partitions
from stele.spark.routes import relevant
from stele.spark.spark_types import spark_schema
from stele.spark.tasks import make_tasks, run_task


class SteleDataSource(DataSource):  # type: ignore[misc]  # PySpark has no types for us
    """A table as a data source; see ``docs/guide/spark.md`` for the options."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` calls it."""
        return "stele"

    def schema(self) -> StructType:
        """The columns of the table in the shape that is asked for."""
        options = ReadOptions.parse(self.options)
        request = options.request()
        with options.address.open() as table:
            fields = spark_schema(request.converter(table.schema).arrow_schema).fields
        first = fields[0]
        fields[0] = StructField(first.name, first.dataType, first.nullable, options.metadata())
        return StructType(fields)

    def reader(self, schema: StructType) -> SteleReader:
        """A reader of the columns in ``schema``."""
        kept = from_metadata(schema.fields[0].metadata) if schema.fields else {}
        # Options that are given with a statement count more than those of CREATE TABLE.
        return SteleReader(ReadOptions.parse(overlaid(kept, dict(self.options))), schema)


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


def check_fields(found: pa.Schema, wanted: StructType) -> tuple[str, ...]:
    """The columns that Spark asks for, in its order; each must be one of the table's as it is now.

    Spark's catalog keeps its own copy of a schema, which may have fallen behind the table's.
    """
    present = {field.name: field.dataType for field in spark_schema(found)}
    for field in wanted:
        kind = present.get(field.name)
        if kind is None:
            raise InvalidArgument(
                f"the table has no column {field.name!r}; it has {', '.join(present)}. If it was "
                f"altered: DROP TABLE and CREATE TABLE it again in Spark, the data stays"
            )
        if _plain(kind) != _plain(field.dataType):
            raise InvalidArgument(
                f"column {field.name!r} is of type {kind.simpleString()}, not "
                f"{field.dataType.simpleString()}"
            )
    return tuple(field.name for field in wanted)


def _plain(kind: Any) -> str:
    """A type without what does not matter here: whether parts of it may be null."""
    return str(kind.simpleString())
