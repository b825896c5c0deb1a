"""The summary of a file."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidCells
from stele.model.cells import Cell, Op
from stele.storage.fragment_format import Erasures, FragmentSummary
from stele.storage.fragment_summary import SummaryBuilder
from tests.unit.storage.fragment_cases import SORTED_CELLS, plain_cells, to_blocks


def summarise(cells: list[Cell], size: int) -> FragmentSummary:
    builder = SummaryBuilder()
    for block in to_blocks(cells, size):
        builder.add(block)
    return builder.build()


@settings(max_examples=150)
@given(SORTED_CELLS, st.integers(1, 60))
def test_the_summary_is_true(cells: list[Cell], size: int) -> None:
    """Blocks have families of their own, so this also joins dictionaries."""
    puts = [cell for cell in cells if cell.op is Op.PUT]
    stamps = [cell.timestamp for cell in puts]
    columns = groupby(puts, key=lambda cell: (cell.row, cell.family, cell.qualifier))
    found = summarise(cells, size)
    assert found == FragmentSummary(
        cells=len(cells),
        rows=len({cell.row for cell in cells}),
        first_row=cells[0].row,
        last_row=cells[-1].row,
        families=tuple(sorted({cell.family for cell in cells})),
        txn_min=min(cell.txn for cell in cells),
        txn_max=max(cell.txn for cell in cells),
        put_timestamps=(min(stamps), max(stamps)) if stamps else None,
        erasures=Erasures(*(sum(cell.op is op for cell in cells) for op in list(Op)[:4])),
        versions_max=max((len(list(group)) for _, group in columns), default=0),
    )


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("at", [1, 5, 9])
def test_a_cell_out_of_order_is_named(size: int, at: int) -> None:
    cells = plain_cells(10)
    cells[at] = cells[at - 1]
    with pytest.raises(InvalidCells, match=f"cell {at} of the fragment, in row b'row"):
        summarise(cells, size)


def test_families_that_do_not_occur_are_left_out() -> None:
    (block,) = to_blocks(plain_cells(3))
    builder = SummaryBuilder()
    builder.add(block.with_families(("a", "info", "z")))
    assert builder.build().families == ("info",)


def test_an_empty_block_changes_nothing() -> None:
    (block,) = to_blocks(plain_cells(3))
    builder = SummaryBuilder()
    builder.add(block.slice(0, 0))
    builder.add(block)
    assert builder.build() == summarise(plain_cells(3), 3)
