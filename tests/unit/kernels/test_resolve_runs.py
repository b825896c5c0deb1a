"""Deciding what a read sees, run by run."""

from __future__ import annotations

import numpy as np

from stele.kernels.block import Ints
from stele.kernels.jit import bulk
from stele.kernels.memory import address_of
from stele.kernels.resolve import ReadView
from stele.kernels.resolve_runs import resolve_runs
from stele.kernels.runs import Runs, empty_runs
from stele.kernels.sources import Source, SourceMatrix, SourceTable
from stele.kernels.visibility import visibility_state
from stele.model.cells import Cell, Op
from tests.oracles.blocks import block_of


@bulk
def resolve(matrix: SourceMatrix, merged: Runs, state: Ints, read: Ints, out: Runs) -> int:
    return resolve_runs(
        address_of(matrix),
        address_of(merged),
        len(merged),
        address_of(state),
        address_of(read),
        address_of(out),
        0,
    )


def resolved(
    blocks: list[list[Cell]], runs: list[tuple[int, int, int, int]], *, clean: bool = False
) -> list[list[int]]:
    """The visible runs of rows that are merged already."""
    table = SourceTable((), len(blocks))
    for cells in blocks:
        table.add(Source(block_of(cells)), clean=clean)
    read, out = ReadView(versions=1).parameters(), empty_runs(20)
    count = resolve(table.matrix, np.array(runs, np.int32), visibility_state(20), read, out)
    visible: list[list[int]] = out[:count, :3].tolist()
    return visible


def put(row: bytes, qualifier: bytes, timestamp: int = 1) -> Cell:
    return Cell(row, "f", qualifier, timestamp, txn=1)


def test_a_column_goes_on_from_run_to_run_within_a_row() -> None:
    blocks = [[put(b"r", b"p", 3), put(b"r", b"q", 3)], [put(b"r", b"p", 2), put(b"r", b"q", 2)]]
    runs = [(0, 0, 1, 1), (1, 0, 1, 0), (0, 1, 1, 0), (1, 1, 1, 0)]
    assert resolved(blocks, runs) == [[0, 0, 2]]


def test_a_mark_begins_a_new_row() -> None:
    erasure = Cell(b"a", "", b"", 9, op=Op.ERASE_ROW, txn=5)
    block = [erasure, put(b"a", b"q"), put(b"b", b"q")]
    assert resolved([block], [(0, 0, 2, 1), (0, 2, 1, 1)]) == [[0, 2, 1]]
    assert resolved([block], [(0, 0, 2, 1), (0, 2, 1, 0)]) == []


def test_only_rows_of_one_clean_source_are_taken_unseen() -> None:
    two = [put(b"a", b"q", 2), put(b"a", b"q", 1)]
    assert resolved([two], [(0, 0, 2, 1)], clean=True) == [[0, 0, 2]]
    assert resolved([two], [(0, 0, 2, 1)]) == [[0, 0, 1]]
    assert resolved([two[:1], two[1:]], [(0, 0, 1, 1), (1, 0, 1, 0)], clean=True) == [[0, 0, 1]]
