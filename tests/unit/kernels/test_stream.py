"""Merging streams gives what merging everything at once gives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.compact import CompactionPlan, compact, compaction_rule
from stele.kernels.merge import MERGE_RULE
from stele.kernels.resolve import ReadView, read_rule
from stele.kernels.sources import Source
from stele.kernels.stream import OutputSize, merge_streams, whole_rows
from stele.model.cells import Cell
from tests.oracles import cells as oracle
from tests.oracles import strategies
from tests.oracles.blocks import block_of, cells_of, sources_of
from tests.oracles.cells import Reference
from tests.oracles.fragments import draw_streams, places, stream_of


@settings(max_examples=300)
@given(st.data())
def test_reads_of_streams(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 4, restricted=data.draw(st.booleans())))
    streams = draw_streams(data, references)
    view = ReadView(
        txn=data.draw(st.sampled_from(world.txns)),
        versions=1,
        columns=data.draw(strategies.column_sets(world)),
    )
    expected = oracle.read(references, txn=view.txn, versions=1, columns=view.columns)
    for size in (OutputSize(), OutputSize(cells=1), OutputSize(cells=4, value_bytes=1)):
        pieces = [cells_of(one.gather()) for one in merge_streams(streams, read_rule(view), size)]
        assert [cell for piece in pieces for cell in piece] == expected
        assert all(pieces)
        ends = [(before[-1].row, after[0].row) for before, after in pairwise(pieces)]
        assert all(before != after for before, after in ends)


@settings(max_examples=100)
@given(st.data())
def test_merges_and_compactions_of_streams(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 4))
    streams = draw_streams(data, references)
    plan = CompactionPlan(data.draw(st.sampled_from(world.txns)), rooted=data.draw(st.booleans()))
    merged = [cells_of(one.gather()) for one in merge_streams(streams, MERGE_RULE)]
    assert [cell for piece in merged for cell in piece] == oracle.merge(references)
    kept = merge_streams(streams, compaction_rule(plan), OutputSize(cells=3))
    whole = cells_of(compact(sources_of(references), plan).gather())
    assert [cell for one in kept for cell in cells_of(one.gather())] == whole


@settings(max_examples=200)
@given(st.data())
def test_rows_that_span_blocks_are_put_together(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    blocks = [
        one.block for one in whole_rows(stream_of(Reference(cells), data.draw(places(cells))))
    ]
    assert cells_of(blocks) == cells
    assert all(block.count for block in blocks)
    for before, after in pairwise(blocks):
        assert before.row(before.count - 1) != after.row(0)


def numbered(count: int) -> list[Cell]:
    return [Cell(b"%06d" % number, "f", b"q", 1, b"v", txn=1) for number in range(count)]


def test_a_stream_is_read_no_further_than_it_has_to_be() -> None:
    taken: list[int] = []

    def stream(number: int) -> Iterator[Source]:
        for start in range(0, 1_000, 10):
            taken.append(number)
            yield Source(block_of(numbered(1_000)[start : start + 10]))

    selections = merge_streams([stream(0), stream(1)], read_rule(ReadView()), OutputSize(cells=50))
    assert next(selections).cells == 50
    assert len(taken) <= 14


def test_a_stream_must_not_end_within_a_row() -> None:
    cells = numbered(2)
    with pytest.raises(AssertionError, match="goes on"):
        list(whole_rows([Source(block_of(cells), continues=True)]))


def test_no_streams_and_empty_streams() -> None:
    assert list(merge_streams([], MERGE_RULE)) == []
    assert list(merge_streams([[], [Source(block_of([]))]], MERGE_RULE)) == []
