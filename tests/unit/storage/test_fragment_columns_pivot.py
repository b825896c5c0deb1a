"""Taking a block apart: which cells are native, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from stele.kernels.block import Block
from stele.model.cells import Cell, Op
from stele.model.typed_columns import TypedColumn
from stele.storage.fragment_columns_explode import NativeRows
from stele.storage.fragment_columns_format import native_candidates
from stele.storage.fragment_columns_pivot import CutRows, Placed, find_places, newest_puts
from tests.oracles.blocks import block_of
from tests.unit.storage.columns_cases import SOME_COLUMNS, native, people, tables
from tests.unit.storage.fragment_cases import cells_of, in_order

AGE = (7).to_bytes(8, "big")


def age(row: bytes, timestamp: int, txn: int, value: bytes = AGE) -> Cell:
    return Cell(row, "info", b"age", timestamp, value, txn=txn)


def halves(block: Block, cut: CutRows | None = None) -> tuple[list[Cell], list[Cell]]:
    columns = native(SOME_COLUMNS, own_stamps=True)
    piece = Placed(block, columns, cut or CutRows()).piece(columns)
    block = NativeRows.of_batch(piece.native, columns).block(("info", "more"))
    assert piece.cells == block.count
    return cells_of([block]), cells_of(piece.companion)


@settings(max_examples=100, deadline=None)
@given(tables())
def test_the_halves_are_the_whole(table: tuple[tuple[TypedColumn, ...], list[Cell]]) -> None:
    declared, cells = table
    columns = native(native_candidates(declared), own_stamps=True)
    if not columns:
        return
    placed = Placed(block_of(cells), columns)
    piece = placed.piece(columns)
    families = tuple(sorted({column.family for column in columns}))
    own = cells_of([NativeRows.of_batch(piece.native, columns).block(families)])
    assert in_order([*own, *cells_of(piece.companion)]) == cells
    assert len(own) + sum(block.count for block in piece.companion) == len(cells)
    assert len({cell.row for cell in own}) == piece.native.num_rows, "no row is empty"
    assert piece.differing <= piece.cells


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([age(b"r", 5, 1), age(b"r", 4, 9)], [0]),
        ([age(b"r", 5, 9), age(b"r", 5, 1)], [0]),
        ([age(b"r", 5, 1, b"bad"), age(b"r", 4, 1)], []),
        ([Cell(b"r", "info", b"age", 5, op=Op.ERASE_CELL, txn=3), age(b"r", 5, 1)], []),
        ([Cell(b"r", "info", b"age", 5, op=Op.ERASE_CELL, txn=3), age(b"r", 4, 1)], [1]),
        (
            [Cell(b"r", "", b"", 9, op=Op.ERASE_ROW, txn=3), age(b"r", 5, 4), age(b"s", 5, 1)],
            [1, 2],
        ),
    ],
)
def test_the_newest_visible_put_is_native(cells: list[Cell], expected: list[int]) -> None:
    own, rest = halves(block_of(cells))
    assert own == [cells[number] for number in expected]
    assert rest == [cell for number, cell in enumerate(cells) if number not in expected]


def test_newest_puts_of_a_block() -> None:
    cells = [age(b"r", 5, 1), age(b"r", 4, 9), age(b"s", 1, 1)]
    assert newest_puts(block_of(cells)).tolist() == [1, 0, 1]
    assert newest_puts(block_of(cells[1:])).tolist() == [1, 1]


def test_rows_that_are_cut_stay_cells() -> None:
    block = block_of(people(4))
    rows = [cell.row for cell in people(4)]
    for cut, first, last in (
        (CutRows(first=True), b"row00001", b"row00003"),
        (CutRows(last=True), b"row00000", b"row00002"),
        (CutRows(first=True, last=True), b"row00001", b"row00002"),
    ):
        own, rest = halves(block, cut)
        assert {cell.row for cell in own} == {row for row in rows if first <= row <= last}
        assert len(own) + len(rest) == block.count
        assert not Placed(block, native(SOME_COLUMNS), cut).complete
    assert halves(block_of(people(1)), CutRows(first=True, last=True))[0] == []


def test_which_columns_need_stamps_of_their_own() -> None:
    cells = [
        c if c.qualifier != b"name" else Cell(c.row, "info", b"name", 9, c.value, txn=c.txn)
        for c in people(5)
    ]
    placed = Placed(block_of(cells), native(SOME_COLUMNS))
    assert placed.needs_stamps() == (False, True, False, False)
    assert placed.differing == 5


def test_places_of_an_empty_block() -> None:
    places, firsts, stamps = find_places(block_of([]), native(SOME_COLUMNS))
    assert [len(own) for own in places] == [0] * 4
    assert (len(firsts), len(stamps)) == (0, 0)
