"""The step-by-step merge: rounds, limits and what it refuses."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.compact import CompactionPlan, compaction_rule
from stele.kernels.merge import MERGE_RULE
from stele.kernels.merge_rows import DONE, PAUSED
from stele.kernels.merger import Merger, Rule, merge_parts, merge_whole
from stele.kernels.resolve import ReadView, read_rule
from stele.kernels.sources import Source
from stele.model.cells import Cell
from stele.model.column_set import ColumnSet
from tests.oracles import cells as oracle
from tests.oracles import strategies
from tests.oracles.blocks import block_of, cells_of, sources_of
from tests.oracles.cells import Reference

RULES = {
    "merge": MERGE_RULE,
    "read": read_rule(ReadView(versions=1)),
    "compact": compaction_rule(CompactionPlan(horizon=3)),
}


def merged(references: list[Reference], rule: Rule, **limits: int) -> list[list[Cell]]:
    """The selections of a merge of whole blocks under some limits."""
    sources = [source for source in sources_of(references) if source.block.count]
    merger = Merger(len(sources), rule, **limits)
    for number, source in enumerate(sources):
        merger.feed(number, source, last=True)
    selections = []
    while True:
        answer = merger.step()
        assert answer in (PAUSED, DONE)
        selections.append(cells_of(merger.take().gather()))
        if answer == DONE:
            return selections


@settings(max_examples=100)
@given(st.data())
def test_limits_change_nothing_but_the_size_of_the_pieces(data: st.DataObject) -> None:
    references = data.draw(strategies.references(data.draw(strategies.worlds)))
    for rule in RULES.values():
        (whole,) = merged(references, rule)
        for limits in (
            {"round_runs": 1},
            {"round_runs": 2, "cells_target": 1},
            {"cells_target": 5},
            {"bytes_target": 1},
        ):
            pieces = merged(references, rule, **limits)
            assert [cell for piece in pieces for cell in piece] == whole
            for before, after in pairwise(pieces):
                assert not before or not after or before[-1].row != after[0].row


def test_a_round_of_one_row_stops_after_each_row() -> None:
    cells = [Cell(b"%d" % number, "f", b"q", 1, b"v", txn=1) for number in range(4)]
    pieces = merged([Reference(cells)], MERGE_RULE, round_runs=1, cells_target=1)
    assert pieces == [[cell] for cell in cells]


def test_totals_count_every_round_once() -> None:
    cells = [Cell(b"%03d" % number, "f", b"q", 1, b"v" * 7, txn=1) for number in range(100)]
    merger = Merger(1, MERGE_RULE, round_runs=3)
    merger.feed(0, Source(block_of(cells)), last=True)
    assert merger.step() == DONE
    selection = merger.take()
    assert (selection.cells, selection.totals.tolist()[2:]) == (100, [300, 100, 700])
    assert cells_of(selection.gather()) == cells


def test_a_source_without_a_block_is_asked_for() -> None:
    cells = [Cell(b"%d" % number, "f", b"q", 1, txn=1) for number in range(4)]
    merger = Merger(2, MERGE_RULE)
    merger.feed(0, Source(block_of(cells[:1])), last=False)
    merger.feed(1, Source(block_of(cells[1:2])), last=True)
    assert merger.step() == 0
    merger.feed(0, Source(block_of(cells[2:])), last=False)
    assert merger.step() == 0
    merger.finish(0)
    assert merger.step() == DONE
    assert cells_of(merger.take().gather()) == cells
    assert merger.step() == DONE
    assert not merger.has_cells


def test_families_may_appear_at_any_time() -> None:
    cells = [Cell(b"%d" % number, "zyx"[number % 3], b"q", 1, txn=1) for number in range(6)]
    merger = Merger(1, MERGE_RULE)
    for cell in cells:
        merger.feed(0, Source(block_of([cell])), last=False)
        assert merger.step() == 0
    selection = merger.take()
    assert selection.table.families == ("x", "y", "z")
    assert cells_of(selection.gather()) == cells


@pytest.mark.parametrize("name", ["merge", "compact"])
def test_only_reads_may_mix_columns(name: str) -> None:
    references = [Reference([Cell(b"r", "f", b"q", 1, txn=1)], ColumnSet.of(one)) for one in "fg"]
    with pytest.raises(AssertionError):
        merged(references, RULES[name])


def test_columns_of_a_rule_leave_the_others_out() -> None:
    cells = [Cell(b"r", family, b"q", 1, txn=1) for family in "fgh"]
    rule = read_rule(ReadView(columns=ColumnSet.all_but("g")))
    assert merged([Reference(cells)], rule) == [[cells[0], cells[2]]]
    assert oracle.read([Reference(cells)], columns=ColumnSet.all_but("g")) == [cells[0], cells[2]]


@settings(max_examples=60)
@given(st.data(), st.integers(1, 9), st.sampled_from([1, 5, 1 << 20]))
def test_parts_of_a_merge_are_the_whole(data: st.DataObject, cells: int, size: int) -> None:
    sources = sources_of(data.draw(strategies.references(data.draw(strategies.worlds))))
    for rule in RULES.values():
        whole = cells_of(merge_whole(sources, rule).gather())
        parts = [cells_of(part.gather()) for part in merge_parts(sources, rule, cells, size)]
        assert [cell for part in parts for cell in part] == whole
        for before, after in pairwise(parts):
            assert before[-1].row < after[0].row


def test_a_merge_of_nothing_has_no_parts() -> None:
    assert list(merge_parts([], MERGE_RULE, 1, 1)) == []


def test_large_values_end_a_part_early() -> None:
    def run(source: int) -> list[Cell]:
        rows = [b"%d%d" % (source, number) for number in range(9)]
        return [Cell(row, "f", b"q", 1, b"v" * 100, txn=1) for row in rows]

    sources = [Source(block_of(run(source))) for source in range(3)]
    parts = list(merge_parts(sources, MERGE_RULE, 1_000, 250))
    assert [part.cells for part in parts] == [3] * 9
