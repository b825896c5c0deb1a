"""The order of rows and cells with few and with many sources."""

from __future__ import annotations

import random

import pytest

from stele.kernels.merge import merge
from stele.kernels.merge_rows import LINEAR_MAX
from stele.model.cells import Cell, Op
from tests.oracles.blocks import block_of, cells_of
from tests.oracles.cells import sort_cells
from tests.oracles.strategies import WORLDS, World

MANY = (2, 3, LINEAR_MAX, LINEAR_MAX + 1, LINEAR_MAX + 2, 60, 300)


def dealt(cells: list[Cell], sources: int, seed: int) -> list[list[Cell]]:
    """Cells dealt out at random, some of them twice."""
    dice = random.Random(seed)
    hands: list[list[Cell]] = [[] for _ in range(sources)]
    for cell in cells:
        for _ in range(dice.choice([1, 1, 1, 2])):
            dice.choice(hands).append(cell)
    return [sort_cells(hand) for hand in hands]


def check_merge(cells: list[Cell], sources: int, seed: int = 1) -> None:
    blocks = [block_of(hand) for hand in dealt(cells, sources, seed)]
    assert cells_of(merge(blocks).gather()) == sort_cells(cells)


@pytest.mark.parametrize("sources", MANY)
def test_many_rows_from_many_sources(sources: int) -> None:
    check_merge([Cell(b"%05d" % n, "f", b"q", 1, b"v", txn=n) for n in range(2_000)], sources)


@pytest.mark.parametrize("sources", MANY)
def test_one_row_that_all_sources_have(sources: int) -> None:
    check_merge([Cell(b"row", "f", b"q", n % 97, b"v", txn=n) for n in range(2_000)], sources)


@pytest.mark.parametrize("sources", MANY)
def test_rows_that_differ_only_far_behind_what_they_share(sources: int) -> None:
    shared = b"shared by all rows " * 3
    rows = [shared + b"%04d" % (n // 5) + b"/tail" * (n % 5) for n in range(1_000)]
    check_merge([Cell(row, "f", b"q", 1, b"v", txn=1) for row in rows], sources)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("sources", [2, LINEAR_MAX + 4, 100])
def test_many_sources_of_every_world(world: World, sources: int) -> None:
    dice = random.Random(sources)
    cells = sort_cells(world.cell(dice.randrange(world.size)) for _ in range(1_000))
    check_merge(cells, sources, seed=sources)


def test_all_sources_the_same() -> None:
    cells = [Cell(b"%d" % n, "f", b"q", 1, txn=n) for n in range(10)]
    assert cells_of(merge([block_of(cells)] * 20).gather()) == cells


def test_rows_one_source_after_the_other_are_one_run_each() -> None:
    cells = [Cell(b"%02d" % n, "f", b"q", 1, txn=1) for n in range(40)]
    selection = merge([block_of(cells[:20]), block_of(cells[20:])])
    assert selection.run_count == 2
    assert cells_of(selection.gather()) == cells


def test_ops_at_the_same_coordinates_come_in_their_order() -> None:
    cells = [
        Cell(b"r", "f", b"q", 1, op=op, txn=txn)
        for txn in (2, 1)
        for op in (Op.ERASE_COLUMN, Op.ERASE_CELL, Op.PUT)
    ]
    assert cells_of(merge([block_of([cell]) for cell in reversed(cells)]).gather()) == cells
