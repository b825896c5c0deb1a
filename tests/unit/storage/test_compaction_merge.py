"""The merge of a compaction: from files the same as from memory, in one piece or in several."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.compact import CompactionPlan, compact
from stele.kernels.sources import Source
from stele.model.cells import Cell, Op
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.compaction_merge import compacted, only_columns, stream_of_files
from stele.storage.references import Reference
from tests.unit.storage.fragment_cases import (
    DIRECTORY,
    SORTED_CELLS,
    cells_of,
    new_fs,
    to_blocks,
    write,
)


@given(
    st.lists(SORTED_CELLS, min_size=1, max_size=3),
    st.integers(-1, 3),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_files_are_compacted_as_if_they_were_in_memory(
    parts: list[list[Cell]], horizon: int, rooted: bool, cut: bool
) -> None:
    fs = new_fs()
    references = [
        Reference(file)
        for number, cells in enumerate(parts)
        for file in write(fs, cells, session=f"s{number}")
    ]
    plan = CompactionPlan(horizon, rooted, ((1, 2),) if rooted else ())
    sources = [Source(block) for cells in parts for block in to_blocks(cells)]
    expected = cells_of(compact(sources, plan).gather())
    ranges = [RowRange(b"", b"b"), RowRange(b"b")] if cut else [EVERYTHING]
    stream_of = stream_of_files(fs, DIRECTORY)
    found = [
        cell
        for rows in ranges
        for cell in cells_of(compacted(references, rows, ALL_COLUMNS, plan, stream_of))
    ]
    assert found == expected


def test_cells_outside_of_a_references_columns_are_left_out() -> None:
    fs = new_fs()
    cells = [Cell(row, family, b"q", 1, b"v", txn=1) for row in (b"a", b"b") for family in "fg"]
    (info,) = write(fs, cells)
    one = Reference(info, RowRange(b"a", b"b"), ColumnSet.of(["g"]))
    plan = CompactionPlan(horizon=-1)
    both = ColumnSet.of(["f", "g"])
    blocks = compacted([one], EVERYTHING, both, plan, stream_of_files(fs, DIRECTORY))
    assert cells_of(blocks) == [cells[1]]


def test_only_columns_keeps_row_erasures() -> None:
    erased = Cell(b"a", "", b"", 9, b"", Op.ERASE_ROW, 9)
    of_f, of_g = (Cell(b"a", family, b"q", 1, b"v", txn=1) for family in "fg")
    (mixed,) = to_blocks([erased, of_f, of_g])
    assert only_columns(mixed, ColumnSet.all_but(["h"])) is mixed
    assert cells_of([only_columns(mixed, ColumnSet.of(["g"]))]) == [erased, of_g]
