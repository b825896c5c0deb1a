"""Flush marks: which log cells recovery may replay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption
from stele.model.cells import ROW_ERASURE_FAMILY, Cell, Op
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import RowRange
from stele.storage.flush_marks import (
    NOTHING_FLUSHED,
    CompiledMarks,
    flushed_up_to,
    is_covered,
)
from stele.storage.references import (
    FlushMark,
    coalesce_marks,
    decode_marks,
    encode_marks,
    restrict_marks,
)
from stele.storage.regions import EVERYWHERE, Region
from tests.unit.storage.fragment_cases import in_order, to_blocks
from tests.unit.storage.region_cases import COLUMNS, FAMILIES, POINTS, REGION, ROWS, row_range


def mark(region: Region, txn: int) -> FlushMark:
    return FlushMark(region.rows, region.columns, txn)


MARK = st.builds(mark, REGION, st.integers(0, 4))
MARKS = st.lists(MARK, max_size=5)


def plainly(marks: list[FlushMark], row: bytes, family: str) -> int:
    """The definition, word by word."""
    txns = [one.txn for one in marks if Region(one.rows, one.columns).contains(row, family)]
    return max(txns, default=NOTHING_FLUSHED)


@given(MARKS)
def test_the_highest_mark_over_a_cell_counts(marks: list[FlushMark]) -> None:
    for row, family in POINTS:
        expected = plainly(marks, row, family)
        assert flushed_up_to(marks, row, family) == expected
        if expected != NOTHING_FLUSHED:
            assert is_covered(marks, row, family, expected)
        assert not is_covered(marks, row, family, expected + 1)


@given(MARKS, COLUMNS)
def test_a_row_erasure_is_covered_once_every_family_is(
    marks: list[FlushMark], columns: ColumnSet
) -> None:
    for row in ROWS:
        expected = min(plainly(marks, row, family) for family in FAMILIES if family in columns)
        assert flushed_up_to(marks, row, ROW_ERASURE_FAMILY, columns) == expected


@given(MARKS)
def test_coalescing_changes_nothing_but_the_number(marks: list[FlushMark]) -> None:
    found = coalesce_marks(marks)
    assert len(found) <= max(len(marks), 1) * 3
    for row, family in POINTS:
        assert flushed_up_to(found, row, family) == plainly(marks, row, family)
    assert coalesce_marks(found) == found


def test_a_new_flush_replaces_what_it_covers() -> None:
    old = mark(EVERYWHERE, 5)
    halves = [
        mark(Region(RowRange(b"", b"m")), 7),
        mark(Region(RowRange(b"m")), 8),
    ]
    assert coalesce_marks([old, *halves]) == (halves[1], halves[0])
    groups = [
        mark(Region(columns=ColumnSet.of("a")), 7),
        mark(Region(columns=ColumnSet.all_but("a")), 7),
    ]
    assert coalesce_marks([old, *groups]) == (mark(EVERYWHERE, 7),)


@given(MARKS, row_range(), COLUMNS)
def test_restricting(marks: list[FlushMark], rows: RowRange, columns: ColumnSet) -> None:
    found = restrict_marks(marks, rows, columns)
    for row, family in POINTS:
        inside = rows.contains(row) and family in columns
        expected = plainly(marks, row, family) if inside else NOTHING_FLUSHED
        assert flushed_up_to(found, row, family) == expected


def test_restricting_to_no_columns_leaves_nothing() -> None:
    assert restrict_marks([mark(EVERYWHERE, 1)], columns=ColumnSet.of([])) == ()


@st.composite
def log_cell(draw: st.DrawFn) -> Cell:
    op = draw(st.sampled_from([Op.PUT, Op.ERASE_ROW, Op.ERASE_CELL]))
    family = ROW_ERASURE_FAMILY if op is Op.ERASE_ROW else draw(st.sampled_from(FAMILIES))
    row = draw(st.sampled_from([row for row in ROWS if row]))
    return Cell(row, family, b"", 0, b"", op, txn=draw(st.integers(-1, 5)))


@settings(max_examples=150)
@given(MARKS, st.lists(log_cell(), min_size=1, max_size=40).map(in_order), COLUMNS)
def test_whole_blocks_at_once(
    marks: list[FlushMark], cells: list[Cell], columns: ColumnSet
) -> None:
    (block,) = to_blocks(cells)
    compiled = CompiledMarks(marks, block.families, columns)
    expected = [is_covered(marks, cell.row, cell.family, cell.txn, columns) for cell in cells]
    assert compiled.covered(block).tolist() == expected
    for start in range(len(cells)):
        part = block.slice(start, len(cells))
        assert compiled.covered(part).tolist() == expected[start:]


def test_an_empty_block() -> None:
    (block,) = to_blocks([Cell(b"a", "f", b"", 0)])
    assert CompiledMarks([], block.families).covered(block.slice(0, 0)).tolist() == []


@given(MARKS)
def test_the_stored_form(marks: list[FlushMark]) -> None:
    assert decode_marks(encode_marks(marks), "META") == tuple(marks)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b'[{"txn": 1}]',
        encode_marks([mark(EVERYWHERE, 1)]).replace(b'"txn":1', b'"txn":1e3'),
        encode_marks([mark(EVERYWHERE, 1)]).replace(b"true", b"false"),
        encode_marks([mark(EVERYWHERE, 1)]).replace(b'"end":null', b'"end":""'),
    ],
)
def test_stored_marks_are_input(data: bytes) -> None:
    with pytest.raises(Corruption, match="META row x: not a list of flush marks"):
        decode_marks(data, "META row x")


def test_all_columns_is_the_default() -> None:
    only = mark(Region(columns=ColumnSet.of("a")), 3)
    assert flushed_up_to([only], b"r", ROW_ERASURE_FAMILY) == NOTHING_FLUSHED
    assert flushed_up_to([only], b"r", ROW_ERASURE_FAMILY, ColumnSet.of("a")) == 3
    assert EVERYWHERE.columns == ALL_COLUMNS
