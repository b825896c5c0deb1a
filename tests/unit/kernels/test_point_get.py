"""The kernel of point reads: what it packs, and what it says when it cannot."""

from __future__ import annotations

import struct

import pytest

from stele.kernels.filter import ByteFilters
from stele.kernels.point_get import (
    CELLS_NEEDED,
    MISSING,
    MISSING_BLOCK,
    PACKED_NEEDED,
    SOURCES_NEEDED,
    TOO_SMALL,
    point_get,
)
from stele.kernels.point_index import PointFragment, PointIndex
from stele.kernels.point_reader import CELLS_START, PACKED_START_BYTES, SOURCES_START, PointScratch
from stele.kernels.resolve import ReadView
from stele.model.cells import Cell
from tests.oracles.blocks import block_of
from tests.oracles.cells import Reference
from tests.oracles.fragments import fragment_of


def get(index: PointIndex, row: bytes, scratch: PointScratch) -> int:
    filters = ByteFilters(index.families)
    return point_get(
        index.matrix,
        len(index.fragments),
        row,
        ReadView().parameters(),
        filters.parameters,
        scratch.numbers,
    )


def cell(qualifier: bytes, value: bytes = b"v") -> Cell:
    return Cell(b"row", "f", qualifier, -5, value, txn=7)


def test_the_bytes_of_a_packed_row() -> None:
    index = PointIndex([PointFragment.in_memory(block_of([cell(b"q", b"value"), cell(b"r", b"")]))])
    scratch = PointScratch()
    size = get(index, b"row", scratch)
    packed = struct.pack("<HHIqq", 0, 1, 5, -5, 7) + b"qvalue"
    packed += struct.pack("<HHIqq", 0, 1, 0, -5, 7) + b"r"
    assert bytes(scratch.packed[:size]) == packed


@pytest.mark.parametrize(
    ("fragments", "needed", "amount"),
    [
        (
            [[cell(b"%03d" % n)] for n in range(SOURCES_START + 1)],
            SOURCES_NEEDED,
            SOURCES_START + 1,
        ),
        ([[cell(b"%03d" % n) for n in range(CELLS_START + 1)]], CELLS_NEEDED, CELLS_START + 1),
        ([[cell(b"q", b"v" * PACKED_START_BYTES)]], PACKED_NEEDED, PACKED_START_BYTES + 25),
    ],
    ids=["sources", "cells", "bytes"],
)
def test_what_is_too_small_is_said_and_grows(
    fragments: list[list[Cell]], needed: int, amount: int
) -> None:
    index = PointIndex([PointFragment.in_memory(block_of(cells)) for cells in fragments])
    scratch = PointScratch()
    assert get(index, b"row", scratch) == TOO_SMALL
    assert scratch.numbers[needed] == amount
    scratch.grow()
    assert get(index, b"row", scratch) > 0


def test_a_missing_block_is_named_with_its_fragment() -> None:
    here = PointFragment.in_memory(block_of([cell(b"q")]))
    there, table = fragment_of(Reference([Cell(b"a", "f", b"q", 1), cell(b"x")]), [1])
    index, scratch = PointIndex([here, there]), PointScratch()
    assert get(index, b"row", scratch) == MISSING - 1
    assert scratch.numbers[MISSING_BLOCK] == 1
    assert get(index, b"A", scratch) == 0
    table.load(1)
    assert get(index, b"row", scratch) == 2 * (24 + 2)
