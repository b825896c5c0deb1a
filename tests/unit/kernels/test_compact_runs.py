"""Deciding what a compaction keeps: one case for each rule."""

from __future__ import annotations

import pytest

from stele.kernels.compact import CompactionPlan, compact
from stele.kernels.sources import Source
from stele.model.cells import TIMESTAMP_MAX, Cell, Op
from tests.oracles.blocks import block_of, cells_of
from tests.oracles.cells import sort_cells


def put(timestamp: int, txn: int) -> Cell:
    return Cell(b"r", "f", b"q", timestamp, b"v", txn=txn)


def erase(op: Op, timestamp: int, txn: int) -> Cell:
    family = "" if op == Op.ERASE_ROW else "f"
    qualifier = b"q" if op > Op.ERASE_FAMILY else b""
    return Cell(b"r", family, qualifier, timestamp, op=op, txn=txn)


def kept(cells: list[Cell], horizon: int, *, rooted: bool = False, history: int = 0) -> list[Cell]:
    clauses = ((history, TIMESTAMP_MAX),) if history else ()
    plan = CompactionPlan(horizon, rooted, clauses)
    return cells_of(compact([Source(block_of(sort_cells(cells)))], plan).gather())


def test_of_one_version_the_newest_below_and_all_above_the_horizon() -> None:
    versions = [put(1, txn) for txn in (9, 7, 5, 3)]
    assert kept(versions, 6) == versions[:3]
    assert kept(versions, 2) == versions
    assert kept(versions, 9) == versions[:1]


@pytest.mark.parametrize("op", [Op.ERASE_ROW, Op.ERASE_FAMILY, Op.ERASE_COLUMN, Op.ERASE_CELL])
def test_an_erasure_below_the_horizon_takes_what_it_hides(op: Op) -> None:
    erasure, hidden, newer = erase(op, 5, 4), put(5, 3), put(5, 5)
    assert kept([erasure, hidden], 4) == [erasure]
    assert kept([erasure, hidden], 4, rooted=True) == []
    assert kept([erasure, hidden], 3) == [erasure, hidden]
    assert kept([erasure, hidden], 3, rooted=True) == [erasure, hidden]
    assert kept([erasure, newer], 9) == sort_cells([erasure, newer])
    assert kept([erasure, newer], 9, rooted=True) == [newer]


WIDER = [
    (Op.ERASE_ROW, Op.ERASE_ROW),
    (Op.ERASE_ROW, Op.ERASE_FAMILY),
    (Op.ERASE_ROW, Op.ERASE_CELL),
    (Op.ERASE_FAMILY, Op.ERASE_FAMILY),
    (Op.ERASE_FAMILY, Op.ERASE_COLUMN),
    (Op.ERASE_COLUMN, Op.ERASE_COLUMN),
    (Op.ERASE_COLUMN, Op.ERASE_CELL),
]


@pytest.mark.parametrize(("wide", "narrow"), WIDER)
def test_an_erasure_is_superfluous_below_a_wider_one(wide: Op, narrow: Op) -> None:
    above = erase(wide, 5, 5)
    assert kept([above, erase(narrow, 4, 4)], 9) == [above]
    for needed in (erase(narrow, 6, 4), erase(narrow, 4, 6)):
        both = sort_cells([above, needed])
        assert kept(both, 9) == both
    assert kept([above, erase(narrow, 4, 4)], 4) == sort_cells([above, erase(narrow, 4, 4)])


def test_versions_are_purged_only_where_everything_is_seen() -> None:
    versions = [put(timestamp, timestamp) for timestamp in (5, 4, 3, 2, 1)]
    assert kept(versions, 9, rooted=True, history=2) == versions[:2]
    assert kept(versions, 9, rooted=False, history=2) == versions
    # Above the horizon nothing is purged, and nothing counts.
    assert kept(versions, 3, rooted=True, history=2) == versions[:4]


def test_erased_and_replaced_versions_do_not_count() -> None:
    cells = [put(5, 5), erase(Op.ERASE_CELL, 4, 9), put(4, 4), put(3, 3), put(3, 2), put(2, 2)]
    assert kept(cells, 9, rooted=True, history=2) == [put(5, 5), put(3, 3)]
