"""Compaction: every read at or above the horizon answers as before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.compact import CompactionPlan, compact
from stele.kernels.sources import Facts, Source
from stele.model.cells import TIMESTAMP_MAX, Cell, Op
from stele.model.column_set import ColumnSet
from tests.oracles import cells as oracle
from tests.oracles import strategies, sweep
from tests.oracles.blocks import block_of, cells_of, sources_of
from tests.oracles.cells import Reference


def compacted(references: list[Reference], plan: CompactionPlan) -> list[Cell]:
    return cells_of(compact(sources_of(references), plan).gather())


def reads(references: list[Reference], txns: list[int]) -> list[list[Cell]]:
    return [oracle.read(references, txn=txn) for txn in txns]


@settings(max_examples=300)
@given(st.data())
def test_reads_from_the_horizon_on_are_unchanged(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    horizon = data.draw(st.sampled_from(world.txns))
    later = [txn for txn in world.txns if txn >= horizon]
    for rooted in (False, True):
        result = compacted(references, CompactionPlan(horizon, rooted))
        assert result == oracle.sort_cells(result)
        assert set(result) <= set(oracle.merge(references))
        assert reads([Reference(result)], later) == reads(references, later)
        if rooted:
            assert not [c for c in result if c.op != Op.PUT and c.txn <= horizon]


@settings(max_examples=300)
@given(st.data())
def test_compacting_some_references_does_not_change_what_they_do_to_the_others(
    data: st.DataObject,
) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    clauses = ((1, TIMESTAMP_MAX),)  # not rooted: no purge, whatever the policy says
    for horizon in (world.txns[-1], data.draw(st.sampled_from(world.txns))):
        plan = CompactionPlan(horizon, clauses=clauses)
        later = [txn for txn in world.txns if txn >= horizon]
        before = reads(references, later)
        for part in range(1, len(references)):
            result = Reference(compacted(references[:part], plan))
            assert reads([result, *references[part:]], later) == before


def test_many_tiny_compactions_of_half_of_the_cells() -> None:
    for part, rest in sweep.tiny_references(sets=3_000, seed=1):
        for horizon in (4, 6):
            later = [txn for txn in sweep.TINY.txns if txn >= horizon]
            result = Reference(compacted([part], CompactionPlan(horizon)))
            assert reads([result, rest], later) == reads([part, rest], later)


@settings(max_examples=300)
@given(st.data())
def test_purge_drops_what_the_policy_gives_up_and_nothing_else(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    horizon = data.draw(st.sampled_from(world.txns))
    clause = st.tuples(st.integers(0, 3), st.sampled_from([*world.timestamps, TIMESTAMP_MAX]))
    clauses = tuple(data.draw(st.lists(clause, max_size=3)))
    result = compacted(references, CompactionPlan(horizon, rooted=True, clauses=clauses))
    given_up = set(oracle.purgeable(references, horizon, clauses))
    assert not given_up.intersection(result)
    for txn in (txn for txn in world.txns if txn >= horizon):
        may_see = set(oracle.read(references, txn=txn))
        seen = set(oracle.read([Reference(result)], txn=txn))
        assert may_see - given_up <= seen <= may_see


@settings(max_examples=100)
@given(st.data())
def test_a_compaction_leaves_nothing_to_compact(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    plan = CompactionPlan(data.draw(st.sampled_from(world.txns)), data.draw(st.booleans()))
    once = compacted(references, plan)
    assert compacted([Reference(once)], plan) == once


def erasures(count: int) -> list[Cell]:
    """Erasures of one row: each later in time, and bounded by a later timestamp, than the last."""
    return oracle.sort_cells(
        Cell(b"r", "", b"", number, op=Op.ERASE_ROW, txn=number) for number in range(count)
    )


def test_superfluous_erasures_go_even_when_others_may_hold_what_they_hide() -> None:
    assert compacted([Reference(erasures(100))], CompactionPlan(200)) == erasures(100)[:1]
    assert compacted([Reference(erasures(100))], CompactionPlan(49)) == erasures(100)[:51]


def test_a_cell_erasure_does_not_make_a_column_erasure_superfluous() -> None:
    cells = [
        Cell(b"r", "f", b"q", 5, op=Op.ERASE_CELL, txn=10),
        Cell(b"r", "f", b"q", 5, op=Op.ERASE_COLUMN, txn=8),
    ]
    assert compacted([Reference(cells)], CompactionPlan(20)) == cells


def test_columns_out_of_bounds_are_trimmed() -> None:
    cells = [Cell(b"r", name, b"q", 5, b"v", txn=8) for name in ("f", "g", "h")]
    only = ColumnSet.of(["g"])
    assert compacted([Reference(cells, only)], CompactionPlan(20)) == cells[1:2]


def test_sources_of_different_columns_are_refused() -> None:
    cells = [Cell(b"r", "f", b"q", 5, b"v", txn=8)]
    mixed = [Reference(cells, ColumnSet.of([name])) for name in ("f", "g")]
    with pytest.raises(AssertionError, match="trim"):
        compacted(mixed, CompactionPlan(20))


@pytest.mark.parametrize(
    ("plan", "untouched"),
    [
        (CompactionPlan(9, rooted=True), True),
        (CompactionPlan(9, clauses=((0, TIMESTAMP_MAX),)), True),
        (CompactionPlan(9, rooted=True, clauses=((0, 3),)), False),
    ],
)
def test_a_source_known_to_be_clean_is_passed_on(plan: CompactionPlan, untouched: bool) -> None:
    cells = [Cell(b"r%d" % number, "f", b"q", number, b"v", txn=8) for number in range(5)]
    source = Source(block_of(cells), facts=Facts(txn_max=8, erasures=False, versions_max=1))
    blocks = compact([source], plan).gather()
    assert (cells_of(blocks) == cells) is untouched
    assert cells_of(blocks) == [c for c in cells if untouched or c.timestamp >= 3]
