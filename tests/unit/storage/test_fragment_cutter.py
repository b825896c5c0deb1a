"""Cutting a stream of cells into row groups."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.fragment_survey import FIXED_BYTES
from stele.model.cells import Cell
from stele.storage.fragment_cutter import OVERSIZE_FACTOR, RowGroup, RowGroupCutter
from tests.unit.storage.fragment_cases import SORTED_CELLS, cells_of, plain_cells, to_blocks

NO_LIMIT = 1 << 40


def cut(cells: list[Cell], wanted: int, size: int = NO_LIMIT, *, block: int = 7) -> list[RowGroup]:
    cutter = RowGroupCutter(wanted, size)
    groups = [group for part in to_blocks(cells, block) for group in cutter.add(part)]
    return groups + list(cutter.finish())


def sizes(groups: list[RowGroup]) -> list[int]:
    return [sum(part.count for part in group.parts) for group in groups]


def bytes_of(cells: list[Cell]) -> int:
    return sum(FIXED_BYTES + len(c.row) + len(c.qualifier) + len(c.value) for c in cells)


@settings(max_examples=200)
@given(SORTED_CELLS, st.integers(1, 20), st.integers(1, 3_000), st.integers(1, 40))
def test_groups_are_the_cells_in_order_and_within_bounds(
    cells: list[Cell], wanted: int, size: int, block: int
) -> None:
    groups = cut(cells, wanted, size, block=block)
    contents = [cells_of(group.parts) for group in groups]
    assert [cell for content in contents for cell in content] == cells
    for before, after in pairwise(zip(groups, contents, strict=True)):
        assert after[0].continues == (before[1][-1].row == after[1][0].row)
    assert not groups[0].continues
    for content in contents:
        assert 1 <= len(content) <= max(1, OVERSIZE_FACTOR * wanted)
        assert len(content) == 1 or bytes_of(content) <= OVERSIZE_FACTOR * size


@settings(max_examples=100)
@given(SORTED_CELLS, st.integers(1, 20), st.integers(1, 40))
def test_a_row_is_cut_only_if_it_is_twice_too_large(
    cells: list[Cell], wanted: int, block: int
) -> None:
    longest = max(len(list(cells)) for _, cells in groupby(cells, key=lambda cell: cell.row))
    if longest <= OVERSIZE_FACTOR * wanted:
        assert not any(group.continues for group in cut(cells, wanted, block=block))


@settings(max_examples=100)
@given(SORTED_CELLS, st.integers(1, 20), st.integers(1, 40), st.integers(1, 40))
def test_where_blocks_end_makes_no_difference(
    cells: list[Cell], wanted: int, one: int, other: int
) -> None:
    assert sizes(cut(cells, wanted, block=one)) == sizes(cut(cells, wanted, block=other))


def test_groups_end_at_the_last_row_that_fits() -> None:
    assert sizes(cut(plain_cells(40, per_row=4), 10)) == [8, 8, 8, 8, 8]
    assert sizes(cut(plain_cells(40, per_row=4), 12)) == [12, 12, 12, 4]


def test_a_row_a_little_too_large_gets_a_group_of_its_own() -> None:
    assert sizes(cut(plain_cells(45, per_row=15), 10)) == [15, 15, 15]


def test_a_row_far_too_large_is_cut() -> None:
    groups = cut([*plain_cells(25, per_row=25), Cell(b"z", "info", b"", 0)], 10)
    assert sizes(groups) == [10, 15, 1]
    assert [group.continues for group in groups] == [False, True, False]


def test_large_values_end_a_group_early() -> None:
    cells = plain_cells(12, per_row=2, value=bytes(1_000))
    assert sizes(cut(cells, 100, 4_500)) == [4, 4, 4]
    assert sizes(cut(cells, 100, 10)) == [1] * 12


@pytest.mark.parametrize("block", [1, 3, 1_000])
def test_little_is_kept_waiting(block: int) -> None:
    cutter = RowGroupCutter(10, NO_LIMIT)
    given_out = taken = 0
    for part in to_blocks(plain_cells(500, per_row=3), block):
        taken += part.count
        given_out += sum(sizes(list(cutter.add(part))))
        assert taken - given_out <= OVERSIZE_FACTOR * 10
    assert given_out + sum(sizes(list(cutter.finish()))) == 500


def test_nothing_gives_nothing() -> None:
    cutter = RowGroupCutter(10, NO_LIMIT)
    assert not list(cutter.add(to_blocks(plain_cells(4))[0].slice(0, 0)))
    assert not list(cutter.finish())


def test_after_an_end_comes_a_new_row() -> None:
    cutter = RowGroupCutter(4, NO_LIMIT)
    first, second = plain_cells(6, per_row=3)[:3], plain_cells(6, per_row=3)[3:]
    groups = list(cutter.add(to_blocks(first)[0])) + list(cutter.finish())
    groups += list(cutter.add(to_blocks(second)[0])) + list(cutter.finish())
    assert sizes(groups) == [3, 3]
    assert not any(group.continues for group in groups)
