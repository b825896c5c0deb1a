"""``ss.recover``: the log of a database that was not closed, sorted into files by all executors.

Opening such a database recovers it as well, in one process. Where the log is large that takes long,
and this is quicker: every file of the log is read by a task, every part of the rows is sorted and
written by another, and the driver makes the files the tablets' own. What comes of it is the same,
cell for cell and txn for txn; nothing is logged again. Until the last step the directory is as it
was, so a recovery that failed is simply run again, or left to whoever opens the database next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from stele.env.failpoints import declare, failpoint
from stele.errors import InvalidArgument
from stele.spark.addresses import CLUSTER_SCHEME
from stele.spark.jobs import told
from stele.spark.reading import parallelism
from stele.spark.recover_policy import Part, cut_parts, part_bytes
from stele.spark.recover_samples import sample_log
from stele.spark.recover_task import MANIFEST, MOVED, encode_task, read_pieces, write_parts
from stele.spark.spark_types import spark_schema
from stele.spark.world import CLOCK, files_at, offline_recovery
from stele.storage.log_pieces import PieceFacts
from stele.storage.recovery_work import RecoveryWork
from stele.storage.references import References, decode_references

AFTER_PLAN = declare("spark.recover.after_plan")
AFTER_TASKS = declare("spark.recover.after_tasks")

RUNS_PER_BATCH = "16"
"""Lines that Spark hands to a writer at a time: each is megabytes."""


@dataclass(frozen=True, slots=True)
class RecoverReport:
    """What a recovery did."""

    path: str
    tables: int
    tablets: int
    log_files: int
    log_bytes: int
    cells: int
    """That were in the log and in no file."""
    files: int
    size_bytes: int
    """Of the new files."""
    txn: int
    """The largest in the log: everything up to it is in files now."""
    seconds: float


def recover(spark: Any, path: str | os.PathLike[str]) -> RecoverReport:
    """Recover the database in a directory that no process has open.

    Executors need to see the directory under the same path.
    """
    started = CLOCK.monotonic_us()
    place = os.fspath(path)
    if place.startswith(CLUSTER_SCHEME):
        raise InvalidArgument(f"{place} is a cluster: its servers recover each other's logs")
    with offline_recovery(place) as recovery:
        work = recovery.work
        with told(f"the database in {place!r} is not recovered and as it was"):
            lines = _lines(spark, work) if work.pieces else []
        facts, references = gathered(work, lines)
        failpoint(AFTER_TASKS)
        txn = recovery.publish(facts, references)
    return RecoverReport(
        place,
        tables=len(work.tables),
        tablets=sum(len(lost.tablets) for lost in work.tables),
        log_files=len(work.pieces),
        log_bytes=work.log_bytes,
        cells=sum(line["cells"] for line in lines),
        files=sum(line["files"] for line in lines),
        size_bytes=sum(line["bytes"] for line in lines),
        txn=txn,
        seconds=(CLOCK.monotonic_us() - started) / 1e6,
    )


def _lines(spark: Any, work: RecoveryWork) -> list[Any]:
    parts = planned_parts(work, parallelism(spark))
    failpoint(AFTER_PLAN)
    return _run(spark, work, parts)


def planned_parts(work: RecoveryWork, processors: int) -> list[Part]:
    """The rows of all tables in parts, by a look at the log if one part is not enough."""
    wanted_bytes = part_bytes(work.log_bytes, processors)
    if work.log_bytes <= wanted_bytes:
        return cut_parts(work.tables, {}, wanted_bytes)
    files = files_at(work.location)
    samples = sample_log(files, work.pieces, [lost.table for lost in work.tables])
    return cut_parts(work.tables, samples, wanted_bytes)


def _run(spark: Any, work: RecoveryWork, parts: Sequence[Part]) -> list[Any]:
    """Read all pieces, move their runs to their parts, write these; what the writers say."""
    task = encode_task(work, parts)

    def read(batches: Any) -> Any:
        return read_pieces(task, batches)

    def write(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a recovery runs in tasks"
        return write_parts(task, batches, context.taskAttemptId())

    count = len(work.pieces)
    if not hasattr(spark.range(0), "repartitionById"):
        raise InvalidArgument("recovery needs Spark 4.1 or newer: pip install -U 'steledb[spark]'")
    with _setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", RUNS_PER_BATCH):
        runs = spark.range(0, count, 1, count).mapInArrow(read, spark_schema(MOVED))
        moved = runs.repartitionById(len(parts) + 1, runs["part"])
        return list(moved.mapInArrow(write, spark_schema(MANIFEST)).collect())


@contextmanager
def _setting(spark: Any, name: str, value: str) -> Iterator[None]:
    """A setting of a session for a while."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def gathered(
    work: RecoveryWork, lines: Sequence[Any]
) -> tuple[list[PieceFacts], dict[str, References]]:
    """What readers have seen of the log, and the files of each table, from what writers say."""
    facts = [
        msgspec.msgpack.decode(bytes(line["facts"]), type=PieceFacts)
        for line in lines
        if line["facts"]
    ]
    references: dict[str, References] = {lost.table: () for lost in work.tables}
    for line in lines:
        if line["references"]:
            table = line["table"]
            found = decode_references(bytes(line["references"]), f"a part of {table}")
            references[table] = (*references[table], *found)
    return facts, references
