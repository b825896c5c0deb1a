"""Merging streams of blocks in bounded memory: scans and compactions of whole fragments.

A stream is the blocks of one reference, in order, as sources. The merger holds the current block of
each stream and asks for the next when one is used up, so at any time there are in memory: one block
for each stream, the blocks since the last output, and the output, of about ``CELLS_TARGET`` cells.

A merger works on whole rows, and blocks are cut between rows, except where a row is larger than a
block. Such a row's pieces are put together into one block of their own before they are merged.

Every selection handed over consists of whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stele.errors import LimitExceeded
from stele.kernels.block import Block
from stele.kernels.merge_rows import DONE
from stele.kernels.merger import Merger, Rule
from stele.kernels.search import row_lower_bound, row_upper_bound
from stele.kernels.selection import Selection, select_masked
from stele.kernels.sources import Source

CELLS_TARGET = 65_536
"""Cells of one output: enough that what is done once for each output does not count."""

BYTES_TARGET = 32 * 1024 * 1024
"""Bytes of values after which an output is large enough, however few cells it has."""


@dataclass(frozen=True, slots=True)
class OutputSize:
    """When a stream of selections hands over the next."""

    cells: int = CELLS_TARGET
    value_bytes: int = BYTES_TARGET


DEFAULT_SIZE = OutputSize()


def merge_streams(
    streams: Sequence[Iterable[Source]], rule: Rule, size: OutputSize = DEFAULT_SIZE
) -> Iterator[Selection]:
    """Merge streams, each the blocks of a reference in order; selections hold whole rows."""
    blocks = [whole_rows(stream) for stream in streams]
    merger = Merger(len(streams), rule, cells_target=size.cells, bytes_target=size.value_bytes)
    for number, stream in enumerate(blocks):
        first = next(stream, None)
        if first is not None:
            merger.feed(number, first, last=False)
    while True:
        answer = merger.step()
        if merger.is_full or (answer == DONE and merger.has_cells):
            yield merger.take()
        if answer == DONE:
            return
        if answer >= 0:
            following = next(blocks[answer], None)
            if following is None:
                merger.finish(answer)
            else:
                merger.feed(answer, following, last=False)


def whole_rows(stream: Iterable[Source]) -> Iterator[Source]:
    """The same cells in blocks that end between rows; none is empty."""
    pieces: list[Block] = []  # of a row that goes on
    for source in stream:
        block = source.block
        if not block.count:
            continue
        if pieces:
            stop = row_upper_bound(block, pieces[0].row(0))
            pieces.append(block.slice(0, stop))
            if stop == block.count and source.continues:
                continue
            yield replace(source, block=join_row(pieces), continues=False)
            pieces, block = [], block.slice(stop, block.count)
        if source.continues:
            start = row_lower_bound(block, block.row(block.count - 1))
            pieces, block = [block.slice(start, block.count)], block.slice(0, start)
        if block.count:
            yield replace(source, block=block, continues=False)
    assert not pieces, "a stream ends with a row that goes on"


def join_row(pieces: Sequence[Block]) -> Block:
    """The pieces of one row as one block."""
    masks = [np.ones(piece.count, np.bool_) for piece in pieces]
    joined = select_masked(pieces, masks).gather()
    if len(joined) != 1:
        raise LimitExceeded(f"row {pieces[0].row(0)[:32]!r} has more than 2 GiB in one fragment")
    return joined[0]
