"""A table that a job is to load: its rows before, what the job adds, and what must be true of both.

After whatever happened, the table has all rows of the job, each cell once and at one txn, or it is
as if the job had never been.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import stele
from stele import spark as ss
from stele.errors import SteleError
from tests.chaos.spark.worker_faults import WorkerFault, armed_rows

ROWS = 300
KEPT_ROWS = 20
"""That were in the table before."""

SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", block_cells=256)],
    columns={"info:n": "int64", "info:text": "string"},
)
REGROUPED = stele.Schema(
    [stele.Group("rest", block_cells=256), stele.Group("hot2", ["info"], block_cells=256)],
    columns={"info:n": "int64", "info:text": "string"},
)

Cells = dict[tuple[bytes, str], object]


def row_key(number: int) -> bytes:
    return b"r%06d" % number


def frame(spark: Any, seed: int) -> Any:
    """The rows of a job in no order; what they hold is of this job only."""
    return spark.range(0, ROWS, 1, 2).selectExpr(
        f"concat('r', lpad(CAST((id * 7919) % {ROWS} AS STRING), 6, '0')) AS id",
        "id AS `info:n`",
        f"concat('{seed}/', id) AS `info:text`",
        "CASE WHEN id % 2 = 0 THEN CAST(id AS STRING) END AS `x:y`",
    )


class LoadWorld:
    """One database, one table and one job."""

    def __init__(self, spark: Any, directory: Path, seed: int, counters: Counter[str]):
        self.spark = spark
        self.directory = directory
        self.dice = random.Random(seed)
        self.seed = seed
        self.counters = counters
        self.fault: WorkerFault | None = None
        """What happens in a worker while a job runs."""
        self.db = stele.open(directory / "db")
        self.table = self.db.create_table("t", SCHEMA, splits=[row_key(ROWS // 2)])
        self.before: Cells = {}
        for number in range(KEPT_ROWS):
            self.table.put(row_key(ROWS + number), {"info:n": -number})
            self.before[row_key(ROWS + number), "info:n"] = -number

    def close(self) -> None:
        self.db.close()

    def marker(self, name: str) -> str:
        return str(self.directory / f"{name}.marker")

    def loaded(self) -> Cells:
        cells: Cells = {}
        for number in range(ROWS):
            row = row_key(number * 7919 % ROWS)
            cells[row, "info:n"] = number
            cells[row, "info:text"] = f"{self.seed}/{number}"
            if number % 2 == 0:
                cells[row, "x:y"] = b"%d" % number
        return cells

    def load(self) -> ss.Report | SteleError:
        """Run the job; what it says."""
        self.counters["attempts"] += 1
        rows = frame(self.spark, self.seed)
        if self.fault is not None:
            rows = armed_rows(rows, self.fault)
        try:
            return ss.bulk_load(self.spark, rows, self.table, row="id", job_id="job", splits=[])
        except SteleError as error:
            refused = error
        self.counters["attempts refused"] += 1
        assert str(refused), "an error says something"
        assert "\n" not in str(refused), "in one line"
        return refused

    def crashed(self, name: str) -> LoadWorld:
        """The same world as it is on disk at this moment, with another owner."""
        there = LoadWorld.__new__(LoadWorld)
        vars(there).update(vars(self))
        there.directory = self.directory / name
        there.directory.mkdir()
        shutil.copytree(
            self.directory / "db", there.directory / "db", ignore=shutil.ignore_patterns("socket")
        )
        return there

    def reopen(self) -> None:
        """A new owner takes over the directory."""
        self.db = stele.open(self.directory / "db")
        self.table = self.db.table("t")

    def outcome(self) -> str:
        """``all`` or ``none``; anything else is the failure we look for."""
        found = self._cells()
        if found == self.before:
            return "none"
        assert found == self.before | self.loaded(), "some rows of a job and not others"
        return "all"

    def _cells(self) -> Cells:
        cells: Cells = {}
        for row in self.table.scan():
            for cell in row.cells:
                name = str(stele.Column(cell.family, cell.qualifier))
                cells[row.key, name] = row[name]
        return cells

    def check_none(self) -> None:
        assert self.outcome() == "none"
        assert self._cells_written() == 0

    def check_all(self, txn: int) -> None:
        """Every cell once, at one txn, and nothing of it before."""
        assert self.outcome() == "all"
        assert self._cells_written() == len(self.loaded()), "cells of more than one attempt"
        txns = self.table.scan(versions=None).to_arrow().column("txn").to_pylist()
        assert txns.count(txn) == len(self.loaded())
        self.counters["rows checked"] += ROWS

    def _cells_written(self) -> int:
        found = self.table.scan(rows=(row_key(0), row_key(ROWS)), versions=None).to_arrow()
        return int(found.num_rows)

    def finish(self) -> None:
        """Run the job until it is done, and once more: it happens once."""
        report = self.load()
        assert isinstance(report, ss.Report), report
        self.check_all(report.txn)
        again = self.load()
        assert isinstance(again, ss.Report), again
        assert (again.done_before, again.txn) == (True, report.txn)
        self.check_all(report.txn)
        self.counters["jobs done"] += 1
