"""Jobs that write and delete: ``ss.write``, ``format("stele")`` and ``ss.delete``, by number."""

from __future__ import annotations

from typing import Any

from stele import spark as ss
from stele.spark.jobs import told
from stele.spark.reading import TableLike, opened
from stele.spark.write_options import app_write
from tests.chaos.spark.load_world import ROWS, RowsWorld, cells_of, frame, row_key
from tests.chaos.spark.worlds import Done

APP, VERSION = "chaos", 1

LARGE_BYTES = 10_000
"""Of each value, so that tasks write files."""

FILE_POINTS = (
    "storage.columns.after_group",
    "storage.columns.after_sync",
    "storage.fragment.after_group",
    "storage.fragment.after_sync",
    "spark.write.after_files",
)


class WriteWorld(RowsWorld):
    """A large ``ss.write``, which becomes files."""

    worker_points = FILE_POINTS
    disk_point = "storage.columns.after_group"
    driver_points = (
        "tablet.import.after_begin",
        "spark.write.after_tasks",
        "tablet.import.after_prepare",
        "tablet.import.after_txn",
        "tablet.import.after_decision",
        "tablet.import.after_shown",
        "tablet.numbered.after_import",
        "spark.write.after_commit",
    )
    decided_at = "tablet.import.after_decision"
    tasks_done = "spark.write.after_tasks"
    text_bytes = LARGE_BYTES

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:  # noqa: ARG004
        return written(frame(spark, seed, LARGE_BYTES), table)


def written(rows: Any, table: TableLike) -> Done:
    report = ss.write(rows, table, row="id", app_id=APP, version=VERSION)
    return Done(report.txn, report.done_before)


SMALL_POINTS = (
    "tablet.import.after_begin",
    "spark.write.after_tasks",
    "tablet.numbered.after_apply",
    "spark.write.after_commit",
)


class SmallWriteWorld(RowsWorld):
    """A small ``ss.write``, which is one commit of the log."""

    worker_points = ("spark.write.after_lines",)
    driver_points = SMALL_POINTS
    decided_at = "tablet.numbered.after_apply"
    tasks_done = "spark.write.after_tasks"

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:  # noqa: ARG004
        return written(frame(spark, seed), table)


class SourceWriteWorld(RowsWorld):
    """``df.write.format("stele")``: other processes begin and commit, and ask the owner."""

    worker_points = FILE_POINTS
    disk_point = "storage.columns.after_group"
    driver_points = tuple(
        point for point in WriteWorld.driver_points if point.startswith("tablet.")
    )
    decided_at = WriteWorld.decided_at
    text_bytes = LARGE_BYTES

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:  # noqa: ARG004
        with opened(address) as (handle, _):
            before = handle.core.backend.last_numbered(app_write(APP, VERSION).writer)
        writer = frame(spark, seed, LARGE_BYTES).write.format("stele").mode("append")
        writer = writer.options(rowColumn="id", txnAppId=APP, txnVersion=str(VERSION))
        with told("the write is not done"):
            writer.save(address)
        with opened(address) as (handle, _):
            last = handle.core.backend.last_numbered(app_write(APP, VERSION).writer)
        assert last is not None, "a write that is done is remembered"
        return Done(last.txn, before is not None)


class DeleteWorld(RowsWorld):
    """``ss.delete`` of all rows but those that were kept, by their keys or by a condition."""

    worker_points = ("spark.write.after_lines",)
    driver_points = SMALL_POINTS
    decided_at = "tablet.numbered.after_apply"
    tasks_done = "spark.write.after_tasks"

    def fill(self) -> None:
        super().fill()
        self.kept = dict(self.before)
        with self.table.batch() as batch:
            for number in range(ROWS):
                batch.put(row_key(number), {"info:n": number, "x:y": b"gone"})
        self.table.flush()
        self.table.put(row_key(0), {"info:n": 1})
        self.before = cells_of(self.table)

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:  # noqa: ARG004
        what = "`info:n` >= 0" if seed % 2 else frame(spark, seed).select("id")
        row = None if seed % 2 else "id"
        report = ss.delete(what, table, row=row, app_id=APP, version=VERSION)
        return Done(report.txn, report.done_before)

    def check(self, *, happened: bool) -> None:
        """All of the rows are there, or none of them is."""
        assert cells_of(self.table) == (self.kept if happened else self.before)

    def check_done(self, done: Done) -> None:
        assert isinstance(done, Done), done
        self.check(happened=True)
        assert cells_of(self.table, at=done.txn - 1) == self.before, "they are there in the past"
        self.counters["ends checked"] += 1

    def go_on(self) -> None:
        """A row comes back."""
        self.table.put(row_key(7), {"info:n": 7})
        self.kept[row_key(7), "info:n"] = 7
