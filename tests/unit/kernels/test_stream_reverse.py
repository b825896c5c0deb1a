"""Streams merged from their ends."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.resolve import ReadView, read_rule
from stele.kernels.sources import Source
from stele.kernels.stream_reverse import merge_streams_reversed, whole_rows_reversed
from stele.model.cells import Cell
from tests.oracles import cells as oracle
from tests.oracles import strategies
from tests.oracles.blocks import block_of, cells_of
from tests.oracles.cells import Reference
from tests.oracles.fragments import draw_streams, places, stream_of
from tests.oracles.reads import reversed_rows


@settings(max_examples=300)
@given(st.data())
def test_rows_fall_and_are_what_a_forward_read_sees(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 4, restricted=data.draw(st.booleans())))
    streams = [stream[::-1] for stream in draw_streams(data, references)]
    view = ReadView(txn=data.draw(st.sampled_from(world.txns)), versions=1)
    seen = merge_streams_reversed(streams, read_rule(view))
    expected = oracle.read(references, txn=view.txn, versions=1)
    assert [c for one in seen for c in cells_of(one.gather())] == reversed_rows(expected)


@settings(max_examples=200)
@given(st.data())
def test_rows_that_span_blocks_are_put_together(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    stream = stream_of(Reference(cells), data.draw(places(cells)))[::-1]
    blocks = [one.block for one in whole_rows_reversed(stream)][::-1]
    assert cells_of(blocks) == cells
    for before, after in pairwise(blocks):
        assert before.row(before.count - 1) != after.row(0)


def test_one_row_in_two_blocks() -> None:
    cells = [Cell(b"r", "f", b"%d" % number, 1, txn=1) for number in range(4)]
    stream = [Source(block_of(cells[2:])), Source(block_of(cells[:2]), continues=True)]
    assert cells_of(one.block for one in whole_rows_reversed(stream)) == cells


def test_no_streams_and_empty_streams() -> None:
    rule = read_rule(ReadView())
    assert list(merge_streams_reversed([], rule)) == []
    assert list(merge_streams_reversed([[], [Source(block_of([]))]], rule)) == []
