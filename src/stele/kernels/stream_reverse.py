"""Merging streams from their ends, for reverse scans.

Streams deliver their blocks from the last to the first. In each round the rows at or above the
highest first row among the streams that have more blocks are complete: they are cut off the current
blocks, merged and resolved like any others, and handed over with their order turned round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from stele.kernels.block import Block
from stele.kernels.merger import Rule, merge_whole
from stele.kernels.reverse import reverse_rows
from stele.kernels.search import row_lower_bound, row_upper_bound
from stele.kernels.selection import Selection
from stele.kernels.sources import Source
from stele.kernels.stream import join_row


def merge_streams_reversed(streams: Sequence[Iterable[Source]], rule: Rule) -> Iterator[Selection]:
    """Merge streams, each the blocks of a reference from the last to the first.

    Selections hold whole rows, the last row first.
    """
    blocks = [whole_rows_reversed(stream) for stream in streams]
    current = [next(stream, None) for stream in blocks]
    while any(current):
        bound = max(source.block.row(0) for source in current if source is not None)
        complete = []
        for number, source in enumerate(current):
            if source is None:
                continue
            block = source.block
            start = row_lower_bound(block, bound)
            if start < block.count:
                complete.append(replace(source, block=block.slice(start, block.count)))
            if start:
                current[number] = replace(source, block=block.slice(0, start))
            else:
                current[number] = next(blocks[number], None)
        selection = reverse_rows(merge_whole(complete, rule))
        if selection.cells:
            yield selection


def whole_rows_reversed(stream: Iterable[Source]) -> Iterator[Source]:
    """Blocks from the last to the first, cut so that each begins and ends between rows."""
    sources = (source for source in stream if source.block.count)
    source = next(sources, None)
    pieces: list[Block] = []  # of a row that began earlier, in cell order
    for before in chain(sources, [None]):
        if source is None:
            return
        block, began_before = source.block, before is not None and before.continues
        if pieces:
            start = row_lower_bound(block, pieces[0].row(0))
            pieces.insert(0, block.slice(start, block.count))
            block = block.slice(0, start)
            if block.count or not began_before:
                yield replace(source, block=join_row(pieces), continues=False)
                pieces = []
        if began_before and block.count:
            stop = row_upper_bound(block, block.row(0))
            pieces, block = [block.slice(0, stop)], block.slice(stop, block.count)
        if block.count:
            yield replace(source, block=block, continues=False)
        source = before
    assert not pieces, "a stream begins with a row that began before it"
