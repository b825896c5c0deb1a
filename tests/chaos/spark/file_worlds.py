"""Jobs that leave what can be read as it is: ``ss.compact`` and reads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import stele
from stele import spark as ss
from stele.spark.jobs import told
from stele.spark.reading import TableLike
from tests.chaos.spark.worlds import Done, TableWorld
from tests.spark.tables import SCHEMA, cells_of_frame, cells_of_scan, random_course

STEPS = 120
"""Writes, erasures, flushes, splits and compactions before the job."""

MOMENTS = 6
"""At which the past is looked at."""

THEN = "then"
"""The snapshot that is read."""


class CourseWorld(TableWorld):
    """A table with a past, in many files and in memory."""

    schema = SCHEMA
    regrouped = stele.Schema(
        [stele.Group("rest", block_cells=256), stele.Group("seen", ["stats"], block_cells=256)],
        columns={"info:age": "int64", "info:name": "string", "stats:seen": "timestamp"},
    )

    def fill(self) -> None:
        txns = random_course(self.table, self.dice, STEPS)
        self.moments = [*txns[:: len(txns) // MOMENTS], self.table.snapshot(THEN)]
        self.past = self._past()

    def _past(self) -> list[list[tuple[Any, ...]]]:
        return [cells_of_scan(self.table, at=txn, versions=None) for txn in self.moments]

    @staticmethod
    def row(number: int, of: int) -> bytes:
        return bytes([256 * number // of])

    def check(self, *, happened: bool) -> None:
        """Every moment is as it was."""
        assert self._past() == self.past


class CompactWorld(CourseWorld):
    """``ss.compact``."""

    worker_points = (
        "storage.fragment.after_group",
        "storage.fragment.after_sync",
        "spark.compact.after_files",
    )
    disk_point = "storage.fragment.after_group"
    driver_points = (
        "tablet.import.after_begin",
        "spark.compact.after_begin",
        "tablet.external_compaction.after_lease",
        "spark.compact.after_plan",
        "spark.compact.after_tasks",
        "tablet.external_compaction.after_check",
        "tablet.external_compaction.after_swap",
        "spark.compact.after_publish",
        "tablet.import.after_prepare",
        "tablet.import.after_txn",
        "tablet.import.after_decision",
        "tablet.import.after_shown",
    )
    decided_at = "tablet.import.after_decision"
    tasks_done = "spark.compact.after_tasks"

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:  # noqa: ARG004
        report = ss.compact(spark, table, job_id="job")
        return Done(done_before=report.done_before)


class ReadWorld(CourseWorld):
    """``ss.read`` and ``format("stele")`` of a snapshot; the table goes on meanwhile."""

    worker_points = ("spark.read.after_lines",)

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:
        with told("the read is not done"):
            if seed % 2:
                frame = ss.read(spark, table, shape="cells", at=THEN, partitions=4)
            else:
                reader = spark.read.format("stele").option("shape", "cells")
                frame = reader.option("versionAsOf", THEN).option("partitions", "4").load(address)
            return Done(digest=digest(cells_of_frame(frame)))

    def changes(self) -> list[Callable[[], object]]:
        return [self._write, *super().changes()]

    def _write(self) -> None:
        """Others write and erase."""
        self.table.put(self.cut(), {"info:age": self.dice.randrange(100)})
        self.table.delete(self.cut())

    def check_done(self, done: Done) -> None:
        super().check_done(done)
        assert done.digest == digest(cells_of_scan(self.table, at=THEN))

    def check_again(self, first: Done, again: Done) -> None:
        assert again == first


def digest(cells: Sequence[tuple[Any, ...]]) -> str:
    """The same for the same cells in the same order."""
    return hashlib.sha256(repr(cells).encode()).hexdigest()
