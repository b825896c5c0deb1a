"""Jobs that bring rows into a table: all cells of them once and at one txn, or none. Bulk loads."""

from __future__ import annotations

from typing import Any

import stele
from stele import spark as ss
from stele.spark.reading import TableLike
from tests.chaos.spark.worlds import Done, TableWorld

ROWS = 300
KEPT_ROWS = 20
"""That were in the table before."""

TYPES = {"info:n": "int64", "info:text": "string"}

Cells = dict[tuple[bytes, str], object]


def row_key(number: int) -> bytes:
    return b"r%06d" % number


def frame(spark: Any, seed: int, text_bytes: int = 0) -> Any:
    """The rows of a job in no order; what they hold is of this job only."""
    return spark.range(0, ROWS, 1, 2).selectExpr(
        f"concat('r', lpad(CAST((id * 7919) % {ROWS} AS STRING), 6, '0')) AS id",
        "id AS `info:n`",
        f"concat('{seed}/', id, repeat('x', {text_bytes})) AS `info:text`",
        "CASE WHEN id % 2 = 0 THEN CAST(id AS STRING) END AS `x:y`",
    )


class RowsWorld(TableWorld):
    """A table with some rows, and a job that adds others."""

    schema = stele.Schema(
        [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", block_cells=256)],
        columns=TYPES,
    )
    regrouped = stele.Schema(
        [stele.Group("rest", block_cells=256), stele.Group("hot2", ["info"], block_cells=256)],
        columns=TYPES,
    )
    text_bytes = 0
    """Of a value, about."""
    before: Cells

    def fill(self) -> None:
        self.before = {}
        for number in range(KEPT_ROWS):
            self.table.put(row_key(ROWS + number), {"info:n": -1 - number})
            self.before[row_key(ROWS + number), "info:n"] = -1 - number

    @staticmethod
    def row(number: int, of: int) -> bytes:
        return row_key(ROWS * number // of)

    def added(self) -> Cells:
        """What the job brings."""
        cells: Cells = {}
        for number in range(ROWS):
            row = row_key(number * 7919 % ROWS)
            cells[row, "info:n"] = number
            cells[row, "info:text"] = f"{self.seed}/{number}{'x' * self.text_bytes}"
            if number % 2 == 0:
                cells[row, "x:y"] = b"%d" % number
        return cells

    def check(self, *, happened: bool) -> None:
        """All rows of the job or none of them, and every cell as often as it was written."""
        found = cells_of(self.table)
        added = self.added()
        assert found in (self.before, self.before | added), "some rows of a job and not others"
        assert (found != self.before) == happened
        rows = (row_key(0), row_key(ROWS))
        written = self.table.scan(rows=rows, versions=None).to_arrow().num_rows
        assert written == len(added) * happened, "cells of more than one attempt"

    def check_done(self, done: Done) -> None:
        super().check_done(done)
        txns = self.table.scan(versions=None).to_arrow().column("txn").to_pylist()
        assert txns.count(done.txn) == len(self.added()), "nothing of it was there before"


def cells_of(table: stele.Table, at: int | None = None) -> Cells:
    """The newest of all columns, typed."""
    cells: Cells = {}
    for row in table.scan(at=at):
        for cell in row.cells:
            name = str(stele.Column(cell.family, cell.qualifier))
            cells[row.key, name] = row[name]
    return cells


class LoadWorld(RowsWorld):
    """``ss.bulk_load``."""

    worker_points = (
        "spark.load.after_sort",
        "storage.columns.after_group",
        "storage.columns.after_sync",
        "storage.columns.after_sync_dir",
        "storage.fragment.after_group",
        "storage.fragment.after_sync",
        "spark.load.after_files",
    )
    disk_point = "spark.load.after_sort"
    driver_points = (
        "tablet.import.after_begin",
        "spark.load.after_begin",
        "spark.load.after_tasks",
        "tablet.import.after_prepare",
        "tablet.import.after_txn",
        "tablet.import.after_decision",
        "tablet.import.after_shown",
        "spark.load.after_commit",
    )
    decided_at = "tablet.import.after_decision"
    tasks_done = "spark.load.after_tasks"

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:  # noqa: ARG004
        rows = frame(spark, seed)
        report = ss.bulk_load(spark, rows, table, row="id", job_id="job", splits=[])
        return Done(report.txn, report.done_before)
