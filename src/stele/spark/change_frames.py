"""``ss.changes``: what changed in a table between two moments, as a DataFrame."""

from __future__ import annotations

from typing import Any

from stele.client.changes import check_telling, feed_start
from stele.client.encoder import Columns
from stele.client.table import fields_of
from stele.client.times import At, read_txn
from stele.model.durations import parse_duration
from stele.model.predicates import ScanSpec
from stele.spark.change_options import ChangeRequest
from stele.spark.change_tasks import make_change_tasks, run_change_task
from stele.spark.native import Frame
from stele.spark.pinning import KEEPER
from stele.spark.reading import LEASE_DEFAULT, TableLike, held_pin, opened, parallelism
from stele.spark.requests import ReadRequest
from stele.spark.shapes import Names, Shape
from stele.spark.spark_types import spark_schema
from stele.storage.change_lines import ChangeMode


def changes(
    spark: Any,
    table: TableLike,
    *,
    since: At,
    until: At = None,
    rows: object = None,
    columns: Columns = None,
    shape: Shape | None = None,
    names: Names = "qualified",
    changes: ChangeMode = "net",
    versions: int | None = 1,
    partitions: int | None = None,
    lease: str = LEASE_DEFAULT,
) -> Frame:
    """What was committed after ``since`` up to ``until``, or now, as a DataFrame.

    ``changes="net"`` compares the two moments, row by row, or cell by cell with
    ``shape="cells"``; ``changes="all"`` has a line for each mutation. Every line says in
    ``_change_type``, ``_commit_version`` and ``_commit_timestamp`` what happened and when. From
    ``since=0`` on, all that is there is new. Below the table's history: ``SnapshotTooOld``.
    """
    shape = shape or ("cells" if changes == "all" else "rows")
    check_telling(changes, shape, versions)
    ttl_us = parse_duration(lease, "lease")
    with opened(table) as (handle, address):
        cells = handle.core.cell_spec(columns, versions, None, (), None, None)
        read = ReadRequest(
            spec=ScanSpec(ranges=handle.core.encoder.ranges(rows), **fields_of(cells)),
            shape=shape,
            names=names,
            partitions=partitions,
        )
        request = ChangeRequest(read=read, mode=changes)
        schema = spark_schema(request.telling(handle.schema).schema)
        first, last = feed_start(handle.core, since), read_txn(handle.core.backend, until)
        plan = handle.core.backend.pin_changes(first, last, ttl_us)
        KEEPER.hold(held_pin(handle, address, plan, ttl_us))
    tasks = make_change_tasks(plan, first, plan.txn, request, parallelism(spark))
    if not tasks:
        return spark.createDataFrame([], schema)

    def run(batches: Any) -> Any:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from run_change_task(tasks[number])

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, schema)
