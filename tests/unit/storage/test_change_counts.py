"""Counting changes, and where a batch of them ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stele.model.cells import Cell
from stele.model.ranges import RowRange
from stele.storage.change_counts import ChangeCounts, ChangeLimits, count_changes
from stele.storage.read_plan import ReadPlan, TabletPlan
from stele.storage.references import IMPORT_TXN, Reference
from tests.unit.storage.columns_cases import people, write_typed
from tests.unit.storage.fragment_cases import DIRECTORY, new_fs, plain_cells, write

COUNTS = ChangeCounts(
    np.array([10, 20, 30, 40]), np.array([5, 1, 1, 9]), np.array([50, 10, 10, 90])
)


def plan_of(*tablets: TabletPlan) -> ReadPlan:
    return ReadPlan(
        location="",
        table="t",
        name="t",
        schema_json="",
        txn=98,
        lease="",
        expires_us=0,
        tablets=tablets,
    )


@pytest.mark.parametrize(
    ("since", "mutations", "size_bytes", "end"),
    [
        (0, 5, None, 10),
        (0, 6, None, 20),
        (0, 1, None, 10),
        (10, 2, None, 30),
        (10, 10, None, 30),
        (10, 11, None, None),
        (30, 1, None, 40),
        (40, 1, None, None),
        (0, None, 60, 20),
        (0, 7, 55, 10),
        (0, None, None, None),
        (15, 1, 10_000, 20),
    ],
)
def test_a_batch_ends_at_a_commit(
    since: int, mutations: int | None, size_bytes: int | None, end: int | None
) -> None:
    found = COUNTS.admit(since, ChangeLimits(mutations, size_bytes))
    assert found == end


def test_every_file_is_counted_once() -> None:
    fs = new_fs()
    (plain,) = write(fs, plain_cells(100), session="a")
    imported = [Cell(b"%03d" % n, "f", b"q", 1, b"v", txn=IMPORT_TXN) for n in range(7)]
    (loaded,) = write(fs, imported, session="b")
    references = (Reference(plain), Reference(loaded, txn=95))
    halves = [RowRange(b"", b"row0000010"), RowRange(b"row0000010")]
    plan = plan_of(*(TabletPlan(rows, references) for rows in halves))
    counts = count_changes(fs, DIRECTORY, plan, 90, 98)
    assert counts.txns.tolist() == list(range(91, 99))
    assert counts.mutations.tolist() == [1, 1, 1, 1, 8, 1, 1, 1]
    assert counts.size_bytes.min() > 0
    nothing = count_changes(fs, DIRECTORY, plan, 200, 300)
    assert nothing.txns.tolist() == []
    assert nothing.admit(0, ChangeLimits(1)) is None


def test_rows_of_native_cells_count_with_all_their_cells() -> None:
    fs = new_fs()
    cells = [replace(cell, txn=int(cell.row[-2:]) + 1) for cell in people(60)]
    tablet = TabletPlan(RowRange(), tuple(Reference(file) for file in write_typed(fs, cells)))
    assert tablet.references[0].file.layout == "columns"
    counts = count_changes(fs, DIRECTORY, plan_of(tablet), 20, 40)
    assert counts.txns.tolist() == list(range(21, 41))
    exact = sum(20 < cell.txn <= 40 for cell in cells)
    assert 0 <= int(counts.mutations.sum()) - exact <= 20, "rounded up, for each txn"
