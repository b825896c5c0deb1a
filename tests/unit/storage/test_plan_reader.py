"""Reading references of a plan: the same answer as resolving all of their cells at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, NotFound
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.sources import Source
from stele.model import filters
from stele.model.cells import Cell
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.columns import ColumnSelection
from stele.model.predicates import CellSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.plan_reader import PlanReader
from stele.storage.references import Reference
from tests.unit.storage.fragment_cases import (
    DIRECTORY,
    SORTED_CELLS,
    cells_of,
    new_fs,
    path_of,
    plain_cells,
    to_blocks,
    write,
)

TXN = 1


def resolved(parts: list[list[Cell]], view: ReadView) -> list[Cell]:
    sources = [Source(block) for cells in parts for block in to_blocks(cells)]
    return cells_of(merge_resolve(sources, view).gather())


@given(st.lists(SORTED_CELLS, min_size=1, max_size=3), st.integers(0, 3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_files_are_merged_as_if_they_were_in_memory(
    parts: list[list[Cell]], versions: int, cut: bool
) -> None:
    fs = new_fs()
    references = [
        Reference(file)
        for number, cells in enumerate(parts)
        for file in write(fs, cells, session=f"s{number}")
    ]
    reader = PlanReader(fs, DIRECTORY, TXN, ALL_COLUMNS)
    spec = CellSpec(versions=versions or None)
    expected = resolved(parts, ReadView(txn=TXN, versions=versions or None))
    ranges = [RowRange(b"", b"b"), RowRange(b"b")] if cut else [EVERYTHING]
    found = [cell for rows in ranges for cell in cells_of(reader.read(references, rows, spec))]
    assert found == expected
    keys = sorted({cell.row for cell in expected})[cut::2]
    batches = list(reader.read_rows(references, keys, spec))
    places = [
        place
        for batch in batches
        for place in zip(
            *(
                batch.column(name).to_pylist()
                for name in ("row", "qualifier", "timestamp", "value")
            ),
            strict=True,
        )
    ]
    assert places == [
        (cell.row, cell.qualifier, cell.timestamp, cell.value)
        for cell in expected
        if cell.row in keys
    ]


def test_single_rows() -> None:
    fs = new_fs()
    (file,) = write(fs, plain_cells(4_000))
    reader = PlanReader(fs, DIRECTORY, 1 << 40, ALL_COLUMNS)
    keys = [b"row0000003", b"row0000007x", b"row0000900"]
    found = list(reader.read_rows([Reference(file)], keys, CellSpec()))
    assert {row for batch in found for row in batch.column("row").to_pylist()} == {
        b"row0000003",
        b"row0000900",
    }
    assert list(reader.read_rows([Reference(file)], [], CellSpec())) == []


def test_columns_filters_and_time_narrow_a_read() -> None:
    fs = new_fs()
    (file,) = write(fs, plain_cells(400))
    reader = PlanReader(fs, DIRECTORY, 1 << 40, ALL_COLUMNS)

    def rows(**spec: object) -> set[tuple[bytes, bytes]]:
        found = cells_of(reader.read([Reference(file)], EVERYTHING, CellSpec(**spec)))  # type: ignore[arg-type]
        return {(cell.row, cell.qualifier) for cell in found}

    assert len(rows()) == 400
    assert len(rows(columns=ColumnSelection.parse(["info:q00001"]))) == 100
    assert rows(columns=ColumnSelection.parse(["other:"])) == set()
    assert rows(filters=(filters.equal("row", b"row0000007"),), cells_per_row=1) == {
        (b"row0000007", b"q00000")
    }
    assert rows(time_start=1_005, time_end=1_006) == {(b"row0000001", b"q00001")}


def test_families_that_are_not_served_are_not_shown() -> None:
    fs = new_fs()
    (file,) = write(fs, plain_cells(40))
    reader = PlanReader(fs, DIRECTORY, 1 << 40, ColumnSet.of(["other"]))
    assert list(reader.read([Reference(file)], EVERYTHING, CellSpec())) == []


def test_a_txn_that_a_reference_carries_stands_in_the_cells() -> None:
    fs = new_fs()
    cells = [Cell(b"a", "info", b"q", 5, b"v", txn=0)]
    (file,) = write(fs, cells)
    reference = Reference(file, txn=9)
    early = PlanReader(fs, DIRECTORY, 8, ALL_COLUMNS)
    late = PlanReader(fs, DIRECTORY, 9, ALL_COLUMNS)
    assert list(early.read([reference], EVERYTHING, CellSpec())) == []
    (found,) = cells_of(late.read([reference], EVERYTHING, CellSpec()))
    assert found.txn == 9


def test_a_missing_or_exchanged_file_is_refused() -> None:
    fs = new_fs()
    (file,) = write(fs, plain_cells(40))
    (other,) = write(fs, plain_cells(80), session="s2")
    fs.rename(path_of(other), path_of(file))
    reader = PlanReader(fs, DIRECTORY, 1 << 40, ALL_COLUMNS)
    with pytest.raises(Corruption, match="its reference says"):
        list(reader.read([Reference(file)], EVERYTHING, CellSpec()))
    with pytest.raises(NotFound):
        list(reader.read([Reference(other)], EVERYTHING, CellSpec()))
