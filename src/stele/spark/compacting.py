"""``ss.compact``: all files of a table, or of some rows, merged by executors beside live traffic.

The driver goes through the table in rounds, each of as many tablets as all executors can merge in
minutes: it asks the owner for the exact references to merge, under a lease, lets tasks write files,
and hands these back. A tablet shows them iff it still shows all that was merged; one that was
compacted or truncated meanwhile has lost, which harms nobody, and is planned again at the end.

A compaction has a name, its job id. While it runs, the name keeps the collector of garbage away
from its files. After a crash of the driver what was shown stays; the rest is done when it is run
again, or is given up when its time is over. One that is done is not repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from stele.client.backend import TableBackend
from stele.client.table import Table
from stele.env.failpoints import declare, failpoint
from stele.errors import InvalidArgument, SteleError
from stele.model.durations import parse_duration
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.compact_policy import cut_units
from stele.spark.compact_task import MANIFEST, make_task, run_compactions
from stele.spark.jobs import begun_job
from stele.spark.pinning import KEEPER, HeldPin
from stele.spark.reading import TableLike, opened, parallelism
from stele.spark.spark_types import spark_schema
from stele.spark.world import CLOCK
from stele.storage.compaction_work import CompactedUnit, CompactionWork, UnitOutcome
from stele.storage.import_files import decode_files

AFTER_BEGIN = declare("spark.compact.after_begin")
AFTER_PLAN = declare("spark.compact.after_plan")
AFTER_TASKS = declare("spark.compact.after_tasks")
AFTER_PUBLISH = declare("spark.compact.after_publish")

TTL_DEFAULT = "1h"
"""How long after the death of a driver its compaction is given up."""

ROUND_BYTES_PER_CORE = 512 << 20
"""Files that a round reads: minutes of work, after which others may see it and nobody redoes it."""

RETRIES_DEFAULT = 2

JOB_PREFIX = "compact "
"""Compactions and loads of one name are two jobs."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A group of some rows that stayed as it was, because of what happened meanwhile."""

    rows: RowRange
    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompactProgress:
    """How far a compaction has come."""

    tablets: int
    swapped: int
    bytes_in: int
    bytes_out: int
    next_row: bytes | None
    """The first that was not looked at; ``None`` when all were."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did. One that was done before says only that."""

    job_id: str
    tablets: int = 0
    """That were looked at; those that could not get better were left alone."""
    swapped: int = 0
    """Groups of tablets that show new files."""
    lost: tuple[Lost, ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    cells: int = 0
    """In the new files."""
    rounds: int = 0
    seconds: float = 0.0
    done_before: bool = False


def compact(
    spark: Any,
    table: TableLike,
    *,
    rows: object = None,
    job_id: str | None = None,
    retries: int = RETRIES_DEFAULT,
    progress: Callable[[CompactProgress], None] | None = None,
    ttl: str = TTL_DEFAULT,
) -> CompactReport:
    """Merge the files of a table, or of the tablets that overlap ``rows``, with all executors.

    What nobody can read any more is left out, and the rest is written in the table's groups as they
    are now. ``retries`` says how often tablets are tried again that changed meanwhile. Two
    compactions with one ``job_id`` are one.
    """
    if retries < 0:
        raise InvalidArgument(f"retries is at least 0, not {retries}")
    ttl_us = parse_duration(ttl, "ttl")
    started = CLOCK.monotonic_us()
    job = job_id or uuid.uuid4().hex
    with opened(table) as (handle, _):
        ranges = handle.core.encoder.ranges(rows) or (EVERYTHING,)
        with begun_job(handle, f"{JOB_PREFIX}{job}", ttl_us) as ticket:
            if ticket.txn is not None:
                return CompactReport(job, done_before=True)
            failpoint(AFTER_BEGIN)
            backend = handle.core.backend
            backend.flush()
            course = _Course(spark, handle, ticket.job, ticket.token, ttl_us, progress)
            course.run(ranges, retries)
            backend.commit_import(ticket.job, ticket.token, ())
    return course.report(job, (CLOCK.monotonic_us() - started) / 1e6)


@dataclass(slots=True)
class _Course:
    """One compaction, round after round."""

    spark: Any
    handle: Table
    job: str
    token: str
    ttl_us: int
    progress: Callable[[CompactProgress], None] | None
    tablets: int = 0
    swapped: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    cells: int = 0
    rounds: int = 0
    lost: list[Lost] = field(default_factory=list)

    def run(self, ranges: Sequence[RowRange], retries: int) -> None:
        """All rows, and those again that changed meanwhile."""
        for rows in ranges:
            self._go_through(rows)
        for _ in range(retries):
            again, self.lost = self.lost, []
            for rows in _united(one.rows for one in again):
                self._go_through(rows, again=True)

    def _go_through(self, rows: RowRange, *, again: bool = False) -> None:
        bytes_max = ROUND_BYTES_PER_CORE * parallelism(self.spark)
        left: RowRange | None = rows
        while left is not None:
            with self._planned(left, bytes_max) as work:
                failpoint(AFTER_PLAN)
                if work.units:
                    self._round(work)
            self.tablets += 0 if again else work.tablets
            left = None if work.next_row is None else RowRange(work.next_row, rows.end)
            if self.progress is not None:
                self.progress(
                    CompactProgress(
                        self.tablets, self.swapped, self.bytes_in, self.bytes_out, work.next_row
                    )
                )

    @contextmanager
    def _planned(self, rows: RowRange, bytes_max: int) -> Iterator[CompactionWork]:
        """Work whose files stay while it is done."""
        backend = self.handle.core.backend
        work = backend.plan_compaction(rows, bytes_max, self.ttl_us)

        def renew() -> None:
            self.handle.core.handle.check()
            backend.renew_pin(work.lease, self.ttl_us)

        def release() -> None:
            with suppress(SteleError):  # it runs out by itself
                backend.release_pin(work.lease)

        KEEPER.hold(HeldPin(work.lease, self.ttl_us, renew, release))
        try:
            yield work
        finally:
            KEEPER.forget(work.lease)
            release()

    def _round(self, work: CompactionWork) -> None:
        tasks = [
            make_task(work, self.token, pieces)
            for pieces in cut_units(work.units, parallelism(self.spark))
        ]
        lines = _run(self.spark, tasks)
        failpoint(AFTER_TASKS)
        units = finished(work, lines)
        outcomes = self._publish(self.handle.core.backend, units)
        failpoint(AFTER_PUBLISH)
        self.rounds += 1
        self.bytes_in += sum(unit.size_bytes for unit in work.units)
        self.bytes_out += sum(line["bytes"] for line in lines)
        self.cells += sum(line["cells"] for line in lines)
        for unit, outcome in zip(work.units, outcomes, strict=True):
            self.swapped += outcome.swapped
            if outcome.lost:
                self.lost.append(Lost(unit.rows, unit.group, "; ".join(outcome.lost)))

    def _publish(
        self, backend: TableBackend, units: Sequence[CompactedUnit]
    ) -> tuple[UnitOutcome, ...]:
        return backend.publish_compaction(self.job, self.token, units)

    def report(self, job: str, seconds: float) -> CompactReport:
        return CompactReport(
            job,
            tablets=self.tablets,
            swapped=self.swapped,
            lost=tuple(self.lost),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            cells=self.cells,
            rounds=self.rounds,
            seconds=seconds,
        )


def finished(work: CompactionWork, lines: Sequence[Any]) -> list[CompactedUnit]:
    """What each unit has become, from what the tasks say of its pieces, in row order."""
    outputs: dict[int, list[Any]] = {}
    for line in lines:
        outputs.setdefault(line["unit"], []).extend(decode_files(bytes(line["files"])))
    return [
        CompactedUnit(
            unit.rows,
            unit.columns,
            unit.inputs,
            tuple(sorted(outputs[number], key=lambda info: info.summary.first_row)),
        )
        for number, unit in enumerate(work.units)
    ]


def _run(spark: Any, tasks: list[bytes]) -> list[Any]:
    def run(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a compaction runs in a task"
        return run_compactions(tasks, batches, context.taskAttemptId())

    frame = spark.range(0, len(tasks), 1, len(tasks))
    return list(frame.mapInArrow(run, spark_schema(MANIFEST)).collect())


def _united(ranges: Iterator[RowRange]) -> list[RowRange]:
    """The same rows in order, each once: groups of one tablet are planned together."""
    found: list[RowRange] = []
    for rows in sorted(ranges, key=lambda each: each.start):
        if found and (found[-1].end is None or rows.start <= found[-1].end):
            ends = (found[-1].end, rows.end)
            end = None if None in ends else max(each for each in ends if each is not None)
            found[-1] = RowRange(found[-1].start, end)
        else:
            found.append(rows)
    return found
