"""A check finds every kind of damage, in the plan and in the files, and none elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import stele
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.checking import check_plan, make_checks, run_checks
from stele.storage.read_plan import ReadPlan
from tests.unit.spark.plans import file, plan_of, shown, tablet


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[ReadPlan]:
    with stele.open(tmp_path) as db:
        table = db.create_table("users", splits=[b"m"])
        for row in (b"a", b"n"):
            table.put(row, {"f:q": b"x" * 100})
            table.flush()
        yield table.core.backend.pin(None, 60_000_000)


def findings(plan: ReadPlan) -> list[tuple[str, str]]:
    tasks = make_checks(plan, 2)
    numbers = pa.record_batch({"id": list(range(len(tasks)))})
    lines = [line for batch in run_checks(tasks, iter([numbers])) for line in batch.to_pylist()]
    return [(line["kind"], line["subject"]) for line in lines]


def test_nothing_is_wrong(plan: ReadPlan) -> None:
    assert check_plan(plan) == []
    assert len(make_checks(plan, 2)) == 2
    assert findings(plan) == []


@pytest.mark.parametrize("kind", ["missing-file", "short-file", "wrong-file", "damaged-file"])
def test_damage_to_a_file(plan: ReadPlan, kind: str) -> None:
    name = plan.tablets[0].references[0].file.name
    other = plan.tablets[1].references[0].file.name
    path = Path(plan.location) / name
    data = bytearray(path.read_bytes())
    os.chmod(path, 0o600)
    match kind:
        case "missing-file":
            path.unlink()
        case "short-file":
            path.write_bytes(data[:-1])
        case "wrong-file":
            path.write_bytes(data + b"\0")
        case _:
            data[8] ^= 1
            path.write_bytes(data)
    assert findings(plan) == [(kind, name)]
    assert (Path(plan.location) / other).exists()


def test_holes_and_overlaps() -> None:
    low, high = RowRange(b"", b"g"), RowRange(b"m")
    inside = shown(file(1, b"a", b"b"), low)
    assert [each.kind for each in check_plan(plan_of(tablet(low, inside), tablet(high)))] == ["gap"]
    both = plan_of(tablet(RowRange(b"", b"p")), tablet(high))
    assert [each.kind for each in check_plan(both)] == ["overlap"]
    assert [each.kind for each in check_plan(plan_of(tablet(low)))] == ["no-last-tablet"]
    outside = plan_of(tablet(EVERYTHING, inside), tablet(low))
    assert [each.kind for each in check_plan(outside)] == ["overlap", "no-last-tablet"]
    far = plan_of(tablet(low, shown(file(1, b"a", b"z"))), tablet(RowRange(b"g")))
    assert [each.kind for each in check_plan(far)] == ["reference-outside"]
