"""Reading many rows at once into one selection.

Three steps, so that no kernel follows an address that a cache may drop meanwhile:

1. a kernel searches the indexes, which never change, for the blocks each key needs
2. Python takes hold of those blocks, loading the ones that are not in memory
3. a kernel searches the blocks held, merges, resolves, and leaves runs in the order of the keys

Whether a block is in memory is looked up in step 1 only to decide if its bloom filter is worth
asking; if it comes or goes a moment later, nothing but time is lost.

A thousand keys may lie in a thousand blocks, and a block may be large. Whoever cannot hold them all
says how much may be loaded; what is read then are the first of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
    FAMILY_CODES,
    OPS,
    QUALIFIER_OFFSETS,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_OFFSETS,
    Block,
    Ints,
    Matrix,
)
from stele.kernels.compare import row_address
from stele.kernels.jit import bulk, callee
from stele.kernels.memory import (
    LINE_BYTES,
    address_of,
    load_i32,
    load_i64,
    prefetch,
    store_i8,
    store_i64,
)
from stele.kernels.merge_rows import CELL_CURSOR_BYTES
from stele.kernels.point_get import (
    excluded_by_bloom,
    find_span,
    guess_in_block,
    merge_cursors,
    set_cell_cursor,
    within_fence,
)
from stele.kernels.point_index import (
    BLOCK_MATRIX,
    FAMILY_ENTRIES,
    FRAGMENT_WIDTH,
    ROW_ERASURES_REACH,
    TXN_COLUMN,
    USED,
    PointIndex,
)
from stele.kernels.resolve import ReadView
from stele.kernels.resolve_runs import READ_LISTS, resolve_runs
from stele.kernels.row_index import find_block, first_block_of
from stele.kernels.runs import (
    CELL_COUNT,
    RUN_BYTES,
    RUN_COUNT,
    TOTALS_WORDS,
    Runs,
    add_totals,
    empty_runs,
)
from stele.kernels.search import BinaryKeys
from stele.kernels.selection import UNBOUNDED, Selection
from stele.kernels.sources import ACTS_ON, FAMILY_MAP, SOURCE_WIDTH, SourceMatrix, SourceTable
from stele.kernels.visibility import visibility_state

SEGMENT_WIDTH = 2
"""A key and the block it may be in, by their numbers."""

TOGETHER = 256
"""Segments whose memory is asked for before it is searched: waiting for all at once takes hardly
longer than waiting for one."""

Segments = Matrix


@bulk
def _locate_blocks(
    fragments: Matrix,
    bases: Ints,
    offsets: int,
    data: int,
    keys: int,
    ordinals: npt.NDArray[np.int32],
    places: Segments,
    segments: Segments,
) -> tuple[int, int]:
    """Which blocks each key needs. Returns the number of segments and of distinct blocks.

    ``ordinals`` numbers the blocks in the order they are found, from 1; ``places`` names them by
    fragment and block. Stops at the end of ``segments``; what is returned is then larger.
    """
    count, distinct = 0, 0
    for number in range(keys):
        begin = load_i32(offsets + 4 * number)
        row, length = data + begin, load_i32(offsets + 4 * number + 4) - begin
        for at in range(len(bases)):
            fragment = address_of(fragments) + 8 * FRAGMENT_WIDTH * at
            block = find_block(fragment, row, length)
            if block < 0 or not within_fence(fragment, row, length):
                continue
            for candidate in range(first_block_of(fragment, block, row, length), block + 1):
                matrix = load_i64(fragment + 8 * BLOCK_MATRIX)
                descriptor = matrix + 8 * DESCRIPTOR_WIDTH * candidate
                if load_i64(descriptor + 8 * COUNT) != 0:
                    store_i8(load_i64(fragment + 8 * USED) + candidate, 1)
                elif excluded_by_bloom(fragment, candidate, row, length):
                    continue
                if ordinals[bases[at] + candidate] == 0:
                    places[distinct, 0], places[distinct, 1] = at, candidate
                    distinct += 1
                    ordinals[bases[at] + candidate] = distinct
                if count < len(segments):
                    segments[count, 0] = number
                    segments[count, 1] = ordinals[bases[at] + candidate] - 1
                count += 1
    return count, distinct


@callee
def _guess_rows(
    fragments: int, places: int, matrix: int, segments: int, count: int, keys: int, spans: int
) -> None:
    """Guess where some segments' cells are, and ask for the memory that the search will need.

    In steps, each for all of them: what one step asks for has come when the next one looks at it.
    """
    offsets, data = load_i64(keys), load_i64(keys + 8)
    for number in range(count):
        key, slot = load_i64(segments + 16 * number), load_i64(segments + 16 * number + 8)
        begin = load_i32(offsets + 4 * key)
        length = load_i32(offsets + 4 * key + 4) - begin
        fragment = fragments + 8 * FRAGMENT_WIDTH * load_i64(places + 16 * slot)
        source = matrix + 8 * SOURCE_WIDTH * slot
        block = load_i64(places + 16 * slot + 8)
        guess = guess_in_block(fragment, block, source, data + begin, length)
        store_i64(spans + 16 * number, guess)
        prefetch(load_i64(source + 8 * ROW_OFFSETS) + 4 * max(guess, 0))
    for number in range(count):
        source = matrix + 8 * SOURCE_WIDTH * load_i64(segments + 16 * number + 8)
        begin = row_address(source, max(load_i64(spans + 16 * number), 0))
        prefetch(begin - LINE_BYTES)
        prefetch(begin)
        prefetch(begin + LINE_BYTES)


@callee
def _ask_for_cells(source: int, start: int) -> None:
    """Ask for what resolving will look at."""
    prefetch(load_i64(source + 8 * FAMILY_CODES) + 2 * start)
    prefetch(load_i64(source + 8 * QUALIFIER_OFFSETS) + 4 * start)
    prefetch(load_i64(source + 8 * TIMESTAMPS) + 8 * start)
    prefetch(load_i64(source + 8 * TXNS) + 8 * start)
    prefetch(load_i64(source + 8 * OPS) + start)
    prefetch(load_i64(source + 8 * VALUE_OFFSETS) + 4 * start)


@bulk
def _find_spans(
    fragments: Matrix,
    places: Segments,
    matrix: SourceMatrix,
    segments: Segments,
    keys: Ints,
    spans: Segments,
) -> tuple[int, int, int]:
    """Where each segment's cells lie in its block.

    Returns the most segments and the most cells that one key has, and the cells of all.
    """
    widest, most, total, last, width, cells = 0, 0, 0, -1, 0, 0
    for number in range(len(segments)):
        if number % TOGETHER == 0:
            _guess_rows(
                address_of(fragments),
                address_of(places),
                address_of(matrix),
                address_of(segments) + 16 * number,
                min(TOGETHER, len(segments) - number),
                address_of(keys),
                address_of(spans) + 16 * number,
            )
        key, slot = segments[number, 0], segments[number, 1]
        begin = load_i32(keys[0] + 4 * key)
        length = load_i32(keys[0] + 4 * key + 4) - begin
        fragment = address_of(fragments) + 8 * FRAGMENT_WIDTH * places[slot, 0]
        source = address_of(matrix) + 8 * SOURCE_WIDTH * slot
        guess = spans[number, 0]
        start, stop = find_span(fragment, source, keys[1] + begin, length, guess)
        spans[number, 0], spans[number, 1] = start, stop
        if start < stop:
            _ask_for_cells(source, start)
        if key != last:
            last, width, cells = key, 0, 0
        width, cells, total = width + 1, cells + stop - start, total + stop - start
        widest, most = max(widest, width), max(most, cells)
    return widest, most, total


@bulk
def _resolve_keys(
    matrix: SourceMatrix,
    segments: Segments,
    spans: Segments,
    count: int,
    read: Ints,
    work: Ints,
    merged: Runs,
    state: Ints,
    out: Runs,
    totals: Ints,
    cells_of: Ints,
) -> None:
    """Merge and resolve the segments key by key; ``cells_of`` says how many cells each has."""
    sources, target = address_of(matrix), address_of(out)
    copies, at = read[READ_LISTS // 8] != 0, 0
    while at < count:
        key, cursors = segments[at, 0], 0
        while at < count and segments[at, 0] == key:
            slot = segments[at, 1]
            if spans[at, 0] < spans[at, 1]:
                cursor = address_of(work) + CELL_CURSOR_BYTES * cursors
                source = sources + 8 * SOURCE_WIDTH * slot
                set_cell_cursor(cursor, source, slot, spans[at, 0], spans[at, 1])
                cursors += 1
            at += 1
        if cursors > 0:
            order = address_of(work) + CELL_CURSOR_BYTES * cursors
            runs = merge_cursors(address_of(work), cursors, order, address_of(merged), copies)
            fresh = target + RUN_BYTES * totals[RUN_COUNT // 8]
            runs = resolve_runs(
                sources, address_of(merged), runs, address_of(state), address_of(read), fresh, 0
            )
            cells = totals[CELL_COUNT // 8]
            add_totals(sources, fresh, runs, address_of(totals))
            cells_of[key] = totals[CELL_COUNT // 8] - cells


@dataclass(frozen=True, slots=True)
class ManyRows:
    """The cells of the keys that were read, in their order, and how many each has."""

    selection: Selection
    cells: Ints
    keys: int
    """How many were read, from the first on."""


def read_many(
    index: PointIndex,
    keys: Sequence[bytes] | pa.BinaryArray,
    view: ReadView,
    load_bytes_max: int = UNBOUNDED,
) -> ManyRows:
    """What a read sees of many rows, or of the first of them: at least of one.

    Blocks are loaded as far as they take at most so many bytes together.
    """
    index, rows = index.restricted(view.columns), BinaryKeys(keys)
    segments, places = _locate_all(index, rows)
    present, key_count = _present(index, places), rows.count
    if None in present:
        key_count = _keys_within(index, segments, places, present, load_bytes_max, rows.count)
        segments = segments[: np.searchsorted(segments[:, 0], key_count)]
        places = places[: int(segments[:, 1].max(initial=-1)) + 1]
        present = _loaded(index, places, present)
    blocks = cast("list[Block]", present)
    matrix = _source_rows(index, places, blocks)
    spans = np.empty_like(segments)
    count = len(segments)
    addresses = np.array([rows.offsets, rows.data], np.int64)
    widest, most, total = _find_spans(index.matrix, places, matrix, segments, addresses, spans)
    out, totals = empty_runs(total), np.zeros(TOTALS_WORDS, np.int64)
    cells = np.zeros(key_count, np.int64)
    work = np.empty(max(widest, 1) * (CELL_CURSOR_BYTES + 8) // 8, np.int64)
    _resolve_keys(
        matrix,
        segments,
        spans,
        count,
        view.parameters(listed=index.listed),
        work,
        empty_runs(most),
        visibility_state(most),
        out,
        totals,
        cells,
    )
    table = SourceTable.of_rows(index.families, matrix, blocks, index)
    return ManyRows(Selection(table, out, totals), cells, key_count)


def _locate_all(index: PointIndex, rows: BinaryKeys) -> tuple[Segments, Segments]:
    """Segments in the order of the keys, and the distinct blocks they name."""
    counts = [fragment.index.blocks for fragment in index.fragments]
    bases = np.cumsum([0, *counts])[:-1].astype(np.int64)
    blocks = sum(counts)
    capacity = rows.count * len(counts)
    while True:
        places = np.empty((max(blocks, 1), SEGMENT_WIDTH), np.int64)
        segments = np.empty((max(capacity, 1), SEGMENT_WIDTH), np.int64)
        ordinals = np.zeros(max(blocks, 1), np.int32)
        needed, distinct = _locate_blocks(
            index.matrix, bases, rows.offsets, rows.data, rows.count, ordinals, places, segments
        )
        if needed <= len(segments):
            return segments[:needed], places[:distinct]
        capacity = needed


def _present(index: PointIndex, places: Segments) -> list[Block | None]:
    """The blocks of some places, as far as they are in memory."""
    present = [fragment.table.blocks for fragment in index.fragments]
    return [present[at][block] for at, block in places.tolist()]


def _keys_within(
    index: PointIndex,
    segments: Segments,
    places: Segments,
    present: Sequence[Block | None],
    load_bytes_max: int,
    keys: int,
) -> int:
    """How many of the keys need no more than so many bytes to be loaded, or than the first does.

    Places stand in the order in which keys need them.
    """
    tables = [fragment.table for fragment in index.fragments]
    sizes = [
        tables[at].sizes[number] if block is None else 0
        for block, (at, number) in zip(present, places.tolist(), strict=True)
    ]
    fitting = int(np.searchsorted(np.cumsum(sizes), load_bytes_max, "right"))
    of_first = segments[: np.searchsorted(segments[:, 0], segments[0, 0], "right")]
    fitting = max(fitting, int(of_first[:, 1].max()) + 1)
    if fitting == len(places):
        return keys
    return int(segments[np.argmax(segments[:, 1] == fitting), 0])


def _loaded(
    index: PointIndex, places: Segments, present: Sequence[Block | None]
) -> list[Block | None]:
    """The blocks of some places, all of them."""
    tables = [fragment.table for fragment in index.fragments]
    return [
        tables[at].get(number) if block is None else block
        for block, (at, number) in zip(present, places.tolist(), strict=False)
    ]


def _source_rows(index: PointIndex, places: Segments, blocks: Sequence[Block]) -> SourceMatrix:
    """The source matrix of blocks that are held, each as its reference shows it."""
    matrix = np.zeros((max(len(blocks), 1), SOURCE_WIDTH), np.int64)
    if not blocks:
        return matrix
    own = matrix[: len(blocks)]
    descriptors = np.concatenate([block.descriptor for block in blocks])
    own[:, :DESCRIPTOR_WIDTH] = descriptors.reshape(-1, DESCRIPTOR_WIDTH)
    references = index.matrix[places[:, 0]]
    own[:, FAMILY_MAP] = references[:, FAMILY_ENTRIES]
    own[:, ACTS_ON] = references[:, ROW_ERASURES_REACH]
    carried = references[:, TXN_COLUMN]
    own[:, TXNS] = np.where(carried != 0, carried, own[:, TXNS])
    return matrix
