"""Finding native cells: against a plain walk over the cells of each row."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import TIMESTAMPS, Block
from stele.kernels.pivot import (
    NO_CELL,
    PIVOT_WIDTH,
    UNCLEAR,
    count_rows,
    measure_values,
    place_cells,
    take_binary,
    take_differences,
    take_fixed,
)
from stele.model.cells import Cell, Op
from tests.oracles.blocks import block_of, sliced_block_of
from tests.oracles.cells import sort_cells

FAMILIES = ("f", "g")
QUALIFIERS = (b"", b"a", b"b", b"bb" * 9)
Place = tuple[str, bytes]

PUTS = st.builds(
    Cell,
    st.sampled_from([b"", b"r", b"r1", b"s" * 20]),
    st.sampled_from(FAMILIES),
    st.sampled_from(QUALIFIERS),
    st.integers(1, 2),
    st.binary(max_size=9),
    txn=st.integers(1, 2),
)
ONE_OF_EACH = st.lists(
    PUTS, unique_by=lambda cell: (cell.row, cell.family, cell.qualifier), min_size=1, max_size=30
).map(sort_cells)
PLACES = st.lists(
    st.tuples(st.sampled_from([*FAMILIES, "e", "h"]), st.sampled_from(QUALIFIERS)),
    unique=True,
    max_size=8,
).map(sorted)


def place(
    block: Block, columns: list[Place], chosen: list[int] | None = None
) -> tuple[int, list[list[int]], list[tuple[int, int]]]:
    """The answer of the kernel as plain lists: rows, cells by column, stamps by row."""
    qualifiers = [np.frombuffer(qualifier + b"\0", np.uint8) for _, qualifier in columns]
    table = np.zeros((len(columns), PIVOT_WIDTH), np.int64)
    for number, (family, qualifier) in enumerate(columns):
        code = block.families.index(family) if family in block.families else -1
        table[number] = code, qualifiers[number].ctypes.data, len(qualifier)
    capacity = count_rows(block.descriptor)
    places = np.full(len(columns) * capacity, NO_CELL, np.int32)
    firsts, stamps = np.zeros(capacity, np.int32), np.zeros(2 * capacity, np.int64)
    flags = np.array(chosen or [], np.uint8)
    rows = place_cells(block.descriptor, flags, table, places, firsts, stamps)
    found = places.reshape(len(columns), capacity)[:, : max(rows, 0)]
    pairs = stamps.reshape(-1, 2)[: max(rows, 0)].tolist()
    return rows, found.tolist(), [(time, txn) for time, txn in pairs]


@settings(max_examples=200, deadline=None)
@given(ONE_OF_EACH, PLACES)
def test_every_declared_put_finds_its_place(cells: list[Cell], columns: list[Place]) -> None:
    rows, found, stamps = place(sliced_block_of(cells), columns)
    expected = []
    for _, group in groupby(enumerate(cells), key=lambda pair: pair[1].row):
        at = {(cell.family, cell.qualifier): number for number, cell in group}
        native = [at.get(column, NO_CELL) for column in columns]
        if max(native, default=NO_CELL) != NO_CELL:
            expected.append(native)
    assert rows == len(expected)
    assert [list(row) for row in zip(*found, strict=True)] == expected
    for row, (time, txn) in zip(expected, stamps, strict=True):
        own = [cells[cell] for cell in row if cell != NO_CELL]
        for value, all_values in (
            (time, [c.timestamp for c in own]),
            (txn, [c.txn for c in own]),
        ):
            common, count = Counter(all_values).most_common(1)[0]
            assert value in all_values
            assert value == common or 2 * count <= len(own)


def test_rows_are_counted() -> None:
    cells = [Cell(b"r%d" % (at // 3), "f", b"q%d" % at, 1) for at in range(7)]
    assert count_rows(block_of(cells).descriptor) == 3
    assert count_rows(block_of([]).descriptor) == 0


def test_what_has_to_be_found_out_is_said() -> None:
    column: list[Place] = [("f", b"a")]
    older = [Cell(b"r", "f", b"a", 2), Cell(b"r", "f", b"a", 1)]
    erased = [Cell(b"r", "f", b"", 1, op=Op.ERASE_FAMILY), Cell(b"r", "f", b"a", 1)]
    assert place(block_of(older), column)[0] == UNCLEAR
    assert place(block_of(erased), column)[0] == UNCLEAR
    assert place(block_of(older), column, [0, 1])[1] == [[1]]
    assert place(block_of(erased), column, [1, 0])[0] == 0
    undeclared = [Cell(b"r", "f", b"z", 2), Cell(b"r", "f", b"z", 1)]
    assert place(block_of(undeclared), column)[0] == 0, "several versions of others do not matter"


def test_values_of_a_fixed_width_stand_side_by_side() -> None:
    values = [b"12345678", b"short", b"abcdefgh"]
    block = block_of([Cell(b"r%d" % at, "f", b"q", 1, value) for at, value in enumerate(values)])
    places, target = np.array([2, NO_CELL, 1, 0], np.int32), np.zeros(32, np.uint8)
    take_fixed(block.descriptor, places, 8, target)
    assert target.tobytes() == b"abcdefgh" + bytes(16) + b"12345678"
    assert places.tolist() == [2, NO_CELL, NO_CELL, 0], "another length has lost its place"


def test_values_of_any_width_follow_each_other() -> None:
    block = block_of([Cell(b"r%d" % at, "f", b"q", 1, b"v" * at) for at in range(4)])
    places, offsets = np.array([3, NO_CELL, 0, 1], np.int32), np.zeros(5, np.int32)
    assert measure_values(block.descriptor, places) == 4
    target = np.zeros(4, np.uint8)
    take_binary(block.descriptor, places, offsets, target)
    assert offsets.tolist() == [0, 3, 3, 3, 4]
    assert target.tobytes() == b"vvvv"


def test_differences_from_the_row_are_found() -> None:
    block = block_of([Cell(b"r%d" % at, "f", b"q", at, txn=1) for at in range(3)])
    places, stamps = np.array([0, 2, NO_CELL], np.int32), np.array([0, 1, 5, 1, 7, 1], np.int64)
    out, differs = np.zeros(3, np.int64), np.zeros(3, np.uint8)
    assert take_differences(block.descriptor, TIMESTAMPS, places, stamps, 0, out, differs) == 1
    assert (out.tolist(), differs.tolist()) == ([0, 2, 0], [0, 1, 0])
