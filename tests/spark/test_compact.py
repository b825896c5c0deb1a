"""``ss.compact`` in a real Spark, beside everything else that happens to a table."""

from __future__ import annotations

import io
import json
import random
import threading
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.cli.output import Output
from stele.cli.spark_compact import compact as compact_command
from stele.env.failpoints import SimulatedCrash, armed, crash, declared
from stele.tablet.options import EngineOptions
from tests.spark.tables import SCHEMA, cells_of_scan, random_course

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

FAILPOINTS = sorted(
    name
    for name in declared()
    if name.startswith("spark.compact.") and name != "spark.compact.after_files"
)
"""Of the driver."""

BY_HAND = EngineOptions(background=False)


def fragments(table: stele.Table) -> int:
    return sum(tablet.fragments for tablet in table.tablets())


def history(table: stele.Table, txns: list[int]) -> list[list[tuple[Any, ...]]]:
    return [cells_of_scan(table, at=txn, versions=None) for txn in txns]


class Writer(threading.Thread):
    """Writes, erases, flushes, splits, joins and compacts until it is told to stop."""

    def __init__(self, table: stele.Table) -> None:
        super().__init__()
        self.table = table
        self.stopped = threading.Event()
        self.seen: dict[int, list[tuple[Any, ...]]] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        dice = random.Random(3)
        try:
            while not self.stopped.wait(0.1):
                txns = random_course(self.table, dice, 8)
                if txns and len(self.seen) < 8:
                    self.seen[txns[-1]] = cells_of_scan(self.table, at=txns[-1], versions=None)
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            self.error = error

    def end(self) -> None:
        self.stopped.set()
        self.join()
        if self.error is not None:
            raise self.error


def test_no_read_changes_whatever_happens_meanwhile(spark: Any, tmp_path: Path) -> None:
    with stele.open(tmp_path, BY_HAND) as db:
        table = db.create_table("t", SCHEMA, splits=[b"\x40", b"\x80", b"\xc0"])
        txns = random_course(table, random.Random(1), 150)[::20]
        before = history(table, txns)
        writer = Writer(table)
        writer.start()
        try:
            said: list[ss.CompactProgress] = []
            report = ss.compact(spark, table, progress=said.append)
        finally:
            writer.end()
        assert report.swapped > 0
        assert said[-1].next_row is None
        assert history(table, txns) == before
        assert history(table, list(writer.seen)) == list(writer.seen.values())
        last = cells_of_scan(table, versions=None)
        alone = ss.compact(spark, table)
        assert alone.lost == ()
        assert alone.bytes_in > 0
        assert cells_of_scan(table, versions=None) == last
        assert history(table, list(writer.seen)) == list(writer.seen.values())
        leases = table.core.backend._backend.store.coordination.leases(table.core.backend.id)  # type: ignore[attr-defined]
        assert leases == ()
    with stele.open(tmp_path, BY_HAND) as db:
        assert cells_of_scan(db.table("t"), versions=None) == last
        assert history(db.table("t"), txns) == before


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_driver_that_dies_is_run_again(spark: Any, tmp_path: Path, name: str) -> None:
    with stele.open(tmp_path, BY_HAND) as db:
        table = db.create_table("t", SCHEMA)
        txns = random_course(table, random.Random(2), 60)[::10]
        table.flush()
        before = history(table, txns)
        with armed(name, crash()), pytest.raises(SimulatedCrash):
            ss.compact(spark, table, job_id="night")
        assert history(table, txns) == before
    with stele.open(tmp_path, BY_HAND) as db:
        table = db.table("t")
        report = ss.compact(spark, table, job_id="night")
        assert not report.done_before
        assert report.lost == ()
        assert history(table, txns) == before
        assert ss.compact(spark, table, job_id="night").done_before


def test_from_the_command_line(spark: Any, tmp_path: Path) -> None:
    with stele.open(tmp_path, BY_HAND) as db:
        table = db.create_table("t", splits=[b"m"])
        for row in (b"a", b"b", b"n"):
            table.put(row, {"f:q": b"x"})
            table.flush()
        out = io.StringIO()
        words = Namespace(table="t", start="a", end="b", job_id="one", retries=None)
        compact_command(spark, db, words, Output(out, io.StringIO(), as_json=True))
        report = json.loads(out.getvalue())
        assert (report["tablets"], report["swapped"], report["lost"]) == (1, 1, [])
        assert fragments(table) == 2, "the other tablet is as it was"
