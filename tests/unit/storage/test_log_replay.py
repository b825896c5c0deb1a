"""Replay: every committed cell with its txn, damage with its place, and nothing that is flushed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption
from stele.kernels.block import Block
from stele.model.cells import TIMESTAMP_MAX, Cell, Op, batch_to_cells, cells_to_batch
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.flush_marks import is_covered
from stele.storage.log_format import ENTRY_HEADER_BYTES
from stele.storage.log_parts import (
    Commit,
    PartKind,
    batch_commit,
    clock_commit,
    encode_block,
    rows_commit,
)
from stele.storage.log_reader import LogReader
from stele.storage.log_replay import Replayed, recover_log, replay, txn_bounds, unflushed
from stele.storage.references import FlushMark
from tests.unit.storage.log_support import DIRECTORY, TABLE, cell, record, rows, written

FAMILIES = ["a", "b", "c"]


@st.composite
def commits(draw: st.DrawFn) -> list[tuple[str, list[Cell]]]:
    """Cells of some tables, each commit with its own txn, sorted and without duplicates."""
    given_commits = []
    for txn in range(1, draw(st.integers(1, 9)) + 1):
        cells = set()
        for _ in range(draw(st.integers(1, 6))):
            op = draw(st.sampled_from([Op.PUT, Op.PUT, Op.ERASE_ROW, Op.ERASE_COLUMN]))
            family = "" if op is Op.ERASE_ROW else draw(st.sampled_from(FAMILIES))
            qualifier = b"" if op is Op.ERASE_ROW else draw(st.binary(max_size=2))
            row = draw(st.sampled_from([b"a", b"m", b"z"]))
            cells.add(Cell(row, family, qualifier, draw(st.integers(0, 3)), b"", op, txn))
        table = draw(st.sampled_from(["t1", "t2"]))
        given_commits.append((table, sorted(cells, key=Cell.key)))
    return given_commits


def as_commit(table: str, cells: list[Cell], *, small: bool) -> Commit:
    txn = cells[0].txn
    if small:
        return rows_commit(table, txn, [record(each) for each in cells])
    return batch_commit(table, txn, encode_block(Block.from_batch(cells_to_batch(cells))))


def replayed(fs: MemoryFileSystem, tables: set[str] | None = None) -> dict[str, list[Cell]]:
    _sealed, blocks = recover_log(fs, DIRECTORY, "test", tables)
    found: dict[str, list[Cell]] = {}
    for each in blocks:
        cells = batch_to_cells(each.block.batch)
        assert cells == sorted(cells, key=Cell.key)
        assert (each.txn_min, each.txn_max) == txn_bounds(each.block)
        assert {each.txn_min, each.txn_max} <= {cell.txn for cell in cells}
        found.setdefault(each.table, []).extend(cells)
    return {table: sorted(cells, key=Cell.key) for table, cells in found.items()}


@settings(max_examples=60)
@given(commits(), st.lists(st.booleans(), min_size=9, max_size=9), st.integers(1, 4))
def test_what_was_committed_is_replayed(
    given_commits: list[tuple[str, list[Cell]]], small: list[bool], group_size: int
) -> None:
    encoded = [
        as_commit(table, cells, small=is_small)
        for (table, cells), is_small in zip(given_commits, small, strict=False)
    ]
    groups = [encoded[i : i + group_size] for i in range(0, len(encoded), group_size)]
    expected: dict[str, list[Cell]] = {}
    for table, cells in given_commits:
        expected.setdefault(table, []).extend(cells)
    fs = written(groups, roll_bytes=1_024)
    assert replayed(fs) == {t: sorted(cells, key=Cell.key) for t, cells in expected.items()}
    assert set(replayed(fs, {"t1"})) <= {"t1"}


def test_small_commits_become_few_blocks() -> None:
    fs = written([[rows(txn)] for txn in range(1, 101)])
    (block,) = replay(LogReader(fs, DIRECTORY).entries())
    assert (block.block.count, block.txn_min, block.txn_max) == (100, 1, 100)


def test_blocks_are_bounded() -> None:
    fs = written([[rows(txn), rows(txn + 1, "other")] for txn in range(1, 101, 2)])

    ten = 10 * rows(1).size

    def sizes(block_bytes: int, pending_bytes_max: int) -> list[int]:
        blocks = replay(
            LogReader(fs, DIRECTORY).entries(),
            block_bytes=block_bytes,
            pending_bytes_max=pending_bytes_max,
        )
        return [each.block.count for each in blocks]

    assert sizes(1 << 20, 1 << 20) == [50, 50]
    assert sizes(ten, 1 << 20) == [10] * 10
    assert sizes(1 << 20, ten) == [5] * 20


def test_clocks_have_no_cells() -> None:
    assert replayed(written([[clock_commit(5)], [rows(6)]])) == {
        TABLE: [cell(6, b"row0")],
    }


def test_the_seal_tells_the_clock_to_start_above() -> None:
    sealed, blocks = recover_log(written([[rows(5)], [clock_commit(9)]]), DIRECTORY, "test")
    assert sealed.clock == 9
    assert len(list(blocks)) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_a_bad_record_is_named_with_file_and_offset(count: int) -> None:
    good = [rows(txn) for txn in range(1, count + 1)]
    bad = Commit(PartKind.ROWS, 50, TABLE, (bytes(40),), 40)
    fs = written([*([each] for each in good), [bad], [rows(60)]])
    place = list(LogReader(fs, DIRECTORY).entries())[count]
    with pytest.raises(Corruption) as caught:
        replayed(fs)
    assert caught.value.file == place.file
    table_bytes = 16  # nine letters, filled up
    assert caught.value.offset == place.offset + ENTRY_HEADER_BYTES + 16 + table_bytes


def test_a_bad_batch_is_named_with_file_and_offset() -> None:
    fs = written([[rows(1)], [Commit(PartKind.BATCH, 2, TABLE, (bytes(40),), 40)]])
    place = list(LogReader(fs, DIRECTORY).entries())[1]
    with pytest.raises(Corruption, match="batch is not readable") as caught:
        replayed(fs)
    assert caught.value.file == place.file
    assert caught.value.offset == place.offset + ENTRY_HEADER_BYTES + 32


def test_a_bad_part_is_named_with_file_and_offset() -> None:
    fs = written([[msgspec.structs.replace(rows(1), kind=9)]])
    (place,) = LogReader(fs, DIRECTORY).entries()
    with pytest.raises(Corruption, match="not readable") as caught:
        replayed(fs)
    assert caught.value.offset == place.offset + ENTRY_HEADER_BYTES


# Leaving out what is flushed.


def block_of(cells: list[Cell]) -> Block:
    return Block.from_batch(cells_to_batch(sorted(cells, key=Cell.key)))


def kept(
    cells: list[Cell],
    marks: list[FlushMark],
    rows: RowRange = EVERYTHING,
    columns: ColumnSet = ALL_COLUMNS,
) -> list[Cell]:
    block = unflushed(block_of(cells), rows, columns, marks)
    return [] if block is None else batch_to_cells(block.batch)


def mark(txn: int, rows: RowRange = EVERYTHING, columns: ColumnSet = ALL_COLUMNS) -> FlushMark:
    return FlushMark(rows=rows, columns=columns, txn=txn)


COLUMNS = st.one_of(
    st.just(ALL_COLUMNS),
    st.sets(st.sampled_from(FAMILIES), min_size=1).map(ColumnSet.of),
    st.sets(st.sampled_from(FAMILIES), max_size=2).map(ColumnSet.all_but),
)
ROWS = st.sampled_from(
    [RowRange(), RowRange(b"", b"m"), RowRange(b"m"), RowRange(b"m", b"z"), RowRange(b"b", b"c")]
)


@given(
    commits(),
    ROWS,
    COLUMNS,
    st.lists(st.builds(mark, st.integers(0, 9), ROWS, COLUMNS), max_size=4),
)
def test_exactly_the_uncovered_cells_are_kept(
    given_commits: list[tuple[str, list[Cell]]],
    within: RowRange,
    columns: ColumnSet,
    marks: list[FlushMark],
) -> None:
    cells = sorted({each for _table, group in given_commits for each in group}, key=Cell.key)
    expected = [
        each
        for each in cells
        if within.contains(each.row)
        and (each.op is Op.ERASE_ROW or each.family in columns)
        and not is_covered(marks, each.row, each.family, each.txn, columns)
    ]
    assert kept(cells, marks, within, columns) == expected


def test_a_put_that_is_flushed_does_not_come_back() -> None:
    """Its erasure may be gone by now: replaying the put alone would bring it back."""
    put = Cell(b"a", "f", b"q", 1, b"old", txn=5)
    assert kept([put], [mark(5)]) == []
    assert kept([put], [mark(4)]) == [put]


def test_a_row_erasure_stays_until_every_column_has_it() -> None:
    erasure = Cell(b"a", "", b"", TIMESTAMP_MAX, op=Op.ERASE_ROW, txn=5)
    flushed = mark(9, columns=ColumnSet.of("f"))
    assert kept([erasure], [flushed], columns=ColumnSet.of(["f", "g"])) == [erasure]
    assert kept([erasure], [flushed], columns=ColumnSet.of("f")) == []


def test_nothing_is_copied_when_nothing_is_left_out() -> None:
    block = block_of([cell(1), cell(2)])
    assert unflushed(block, EVERYTHING, ALL_COLUMNS, []) is block


def test_a_replayed_block_is_a_value() -> None:
    block = block_of([cell(1)])
    assert Replayed("t", block, 1, 1) == Replayed("t", block, 1, 1)
