"""Which tasks a range of txns has, and what they tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele
from stele.errors import Corruption
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.spark.change_options import ChangeRequest
from stele.spark.change_tasks import changed_tablets, make_change_tasks, run_change_task
from stele.spark.requests import ReadRequest
from tests.unit.spark.plans import file, plan_of, shown, tablet

NET = ChangeRequest(read=ReadRequest())
ALL = ChangeRequest(read=ReadRequest(shape="cells"), mode="all")

OLD = shown(file(1, b"a", b"z", txn=5))
NEW = shown(file(2, b"f", b"h", txn=9))


def test_tablets_without_a_change_have_no_task() -> None:
    quiet, busy = tablet(RowRange(b"", b"e"), OLD), tablet(RowRange(b"e"), OLD, NEW)
    (found,) = changed_tablets([quiet, busy], 5, 9, only_changed=False)
    assert found.rows == RowRange(b"f", b"h\0"), "only rows that may have changed"
    assert found.references == (OLD, NEW)
    (found,) = changed_tablets([quiet, busy], 5, 9, only_changed=True)
    assert found.references == (NEW,)
    assert changed_tablets([quiet, busy], 9, 20, only_changed=False) == []
    assert len(changed_tablets([quiet, busy], 4, 9, only_changed=True)) == 2
    assert make_change_tasks(plan_of(quiet), 5, 9, NET, 4) == []


def test_few_changes_are_one_task_and_more_are_asked_for() -> None:
    samples = [(b"f", 100), (b"fz", 100), (b"g", 100), (b"gz", 100)]
    plan = plan_of(tablet(RowRange(b"e"), OLD, NEW, samples=samples))
    assert len(make_change_tasks(plan, 5, 9, NET, 4)) == 1
    four = ChangeRequest(read=ReadRequest(partitions=4))
    assert len(make_change_tasks(plan, 5, 9, four, 4)) == 4
    elsewhere = ReadRequest(spec=ScanSpec(ranges=(RowRange(b"x"),)))
    assert make_change_tasks(plan, 5, 9, ChangeRequest(read=elsewhere), 4) == []


def lines(table: stele.Table, since: int, request: ChangeRequest, **arguments: Any) -> list[Any]:
    plan = table.core.backend.pin_changes(since, None, 60_000_000)
    return [
        line
        for task in make_change_tasks(plan, since, plan.txn, request, 2, **arguments)
        for batch in run_change_task(task)
        for line in batch.to_pylist()
    ]


def test_tasks_tell_what_changed(tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        table = db.create_table("t", stele.Schema(columns={"info:age": "int64"}), splits=[b"5"])
        for number in range(10):
            table.put(b"%d" % number, {"info:age": number})
        table.compact()
        since = table.core.backend.durable_txn()
        table.put(b"3", {"info:age": 30})
        table.delete(b"7")
        assert [(x["row"], x["info:age"], x["_change_type"]) for x in lines(table, since, NET)] == [
            (b"3", 3, "update_preimage"),
            (b"3", 30, "update_postimage"),
            (b"7", 7, "delete"),
        ]
        some = lines(table, since, ALL, fields=("_change_type", "row"))
        assert some == [
            {"_change_type": "put", "row": b"3"},
            {"_change_type": "erase_row", "row": b"7"},
        ]


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(Corruption, match="not a task of this version"):
        next(run_change_task(b"\x00"))
