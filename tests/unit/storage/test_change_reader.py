"""Reading ranges of txns back from files: the same as filtering all cells, in any window."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.sources import Source
from stele.model.cells import Cell, Op, batch_to_cells
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.columns import EVERY_COLUMN, ColumnSelection
from stele.model.predicates import CellSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.change_reader import ROWS_AT_ONCE, ChangeReader, may_hold
from stele.storage.change_window import ChangeWindow
from stele.storage.references import IMPORT_TXN, Reference
from tests.unit.storage.columns_cases import people, write_typed
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


def by_txn(cell: Cell) -> tuple[object, ...]:
    return (cell.txn, *cell.key())


def all_of(
    reader: ChangeReader,
    references: list[Reference],
    rows: RowRange = EVERYTHING,
    columns: ColumnSelection = EVERY_COLUMN,
    window: ChangeWindow | None = None,
) -> list[Cell]:
    batches = reader.mutations(references, rows, columns, window)
    return [cell for batch in batches for cell in batch_to_cells(batch)]


@given(
    st.lists(SORTED_CELLS, min_size=1, max_size=3), st.integers(0, 3), st.integers(0, 3), st.data()
)
@settings(max_examples=40, deadline=None)
def test_mutations_are_those_of_all_files_once(
    parts: list[list[Cell]], since: int, length: int, data: st.DataObject
) -> None:
    fs = new_fs()
    references = [
        Reference(file)
        for number, cells in enumerate(parts)
        for file in write(fs, cells, session=f"s{number}")
    ]
    reader = ChangeReader(fs, DIRECTORY, since, since + length, ALL_COLUMNS)
    window = ChangeWindow(cells_max=data.draw(st.sampled_from([1, 7, 1_000])))
    everything = {cell.key(): cell for cells in parts for cell in cells}.values()
    expected = [cell for cell in everything if since < cell.txn <= since + length]
    found = all_of(reader, references, window=window)
    # Of two cells at one key the merge keeps one: they differ only where a test made them so.
    assert [cell.key() for cell in found] == [c.key() for c in sorted(expected, key=by_txn)]


@given(st.lists(SORTED_CELLS, min_size=1, max_size=3), st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_net_rows_are_what_reads_see(parts: list[list[Cell]], since: int) -> None:
    fs = new_fs()
    references = [
        Reference(file)
        for number, cells in enumerate(parts)
        for file in write(fs, cells, session=f"s{number}")
    ]
    until, spec = 3, CellSpec(versions=None)
    sources = [Source(block) for cells in parts for block in to_blocks(cells)]
    moments = [
        [cell.key() for cell in cells_of(merge_resolve(sources, ReadView(txn=txn)).gather())]
        for txn in (since, until)
    ]
    touched: dict[bytes, int] = {}
    for cells in parts:
        for cell in cells:
            if since < cell.txn <= until:
                touched[cell.row] = max(cell.txn, touched.get(cell.row, 0))
    reader = ChangeReader(fs, DIRECTORY, since, until, ALL_COLUMNS)
    found = list(reader.net(references, EVERYTHING, spec))
    rows = [row for part in found for row in part.rows.to_pylist()]
    assert rows == sorted(touched)
    assert [txn for part in found for txn in part.txns.tolist()] == [touched[row] for row in rows]
    for name, moment in zip(("before", "after"), moments, strict=True):
        cells_then = [c for part in found for c in batch_to_cells(getattr(part, name))]
        assert [cell.key() for cell in cells_then] == [k for k in moment if k[0] in touched]


def test_rows_larger_than_a_block_stay_whole() -> None:
    """Of blocks next to them nothing is kept; of theirs, every piece."""
    fs = new_fs()
    cells = [
        Cell(row, "f", b"%03d" % number, 1, b"v", txn=5 if row != b"b" else 1 + number % 9)
        for row in (b"a", b"b", b"c")
        for number in range(100)
    ]
    references = [Reference(file) for file in write(fs, cells, block_size=7)]
    reader = ChangeReader(fs, DIRECTORY, 8, 9, ALL_COLUMNS)
    (part,) = reader.net(references, EVERYTHING, CellSpec())
    assert part.rows.to_pylist() == [b"b"]
    assert batch_to_cells(part.after) == cells[100:200]
    assert batch_to_cells(part.before) == [cell for cell in cells[100:200] if cell.txn <= 8]


def test_a_feed_from_nothing_sees_everything_as_new() -> None:
    fs = new_fs()
    cells = plain_cells(100)
    references = [Reference(file) for file in write(fs, cells)]
    reader = ChangeReader(fs, DIRECTORY, 0, 50, ALL_COLUMNS)
    found = list(reader.net(references, EVERYTHING, CellSpec()))
    assert sum(part.before.num_rows for part in found) == 0
    after = [cell for part in found for cell in batch_to_cells(part.after)]
    assert after == [cell for cell in cells if cell.txn <= 50]
    assert [int(txn) for part in found for txn in part.txns][:2] == [3, 7]


def test_more_rows_than_are_read_at_once() -> None:
    fs = new_fs()
    cells = plain_cells(ROWS_AT_ONCE + 100, per_row=1)
    references = [Reference(file) for file in write(fs, cells)]
    reader = ChangeReader(fs, DIRECTORY, 1, 1 << 40, ALL_COLUMNS)
    parts = list(reader.net(references, EVERYTHING, CellSpec()))
    assert max(len(part.rows) for part in parts) <= ROWS_AT_ONCE
    assert sum(len(part.rows) for part in parts) == len(cells) - 2


def test_an_import_has_the_txn_of_its_reference() -> None:
    fs = new_fs()
    cells = [Cell(b"%03d" % n, "f", b"q", 1, b"v", txn=IMPORT_TXN) for n in range(40)]
    references = [Reference(file, txn=7) for file in write(fs, cells)]
    for since, until, count in ((0, 6, 0), (6, 7, 40), (7, 9, 0)):
        reader = ChangeReader(fs, DIRECTORY, since, until, ALL_COLUMNS)
        found = all_of(reader, references, window=ChangeWindow(cells_max=5))
        assert [cell.txn for cell in found] == [7] * count
        assert may_hold(references[0], since, until) == bool(count)


SELECTED = [
    Cell(b"a", "", b"", 9, op=Op.ERASE_ROW, txn=5),
    Cell(b"a", "f", b"", 9, op=Op.ERASE_FAMILY, txn=5),
    Cell(b"a", "f", b"p", 9, op=Op.ERASE_COLUMN, txn=5),
    Cell(b"a", "f", b"p", 4, b"1", txn=6),
    Cell(b"a", "f", b"q", 4, b"2", txn=6),
    Cell(b"a", "g", b"", 9, op=Op.ERASE_FAMILY, txn=5),
    Cell(b"a", "g", b"q", 4, b"3", txn=6),
]


@pytest.mark.parametrize(
    ("columns", "places"),
    [
        (["f:"], [0, 1, 2, 3, 4]),
        (["f:p"], [0, 1, 2, 3]),
        (["g:", "f:q"], [0, 1, 4, 5, 6]),
        (["h:"], [0]),
    ],
)
def test_selected_columns_and_the_erasures_that_reach_them(
    columns: list[str], places: list[int]
) -> None:
    fs = new_fs()
    references = [Reference(file) for file in write(fs, SELECTED)]
    reader = ChangeReader(fs, DIRECTORY, 1, 9, ALL_COLUMNS)
    found = all_of(reader, references, columns=ColumnSelection.parse(columns))
    assert sorted(found, key=Cell.key) == [SELECTED[place] for place in places]


def test_what_a_reference_does_not_show_is_not_told() -> None:
    fs = new_fs()
    (file,) = write(fs, SELECTED)
    halves = [Reference(file, columns=ColumnSet.of([family])) for family in ("f", "g")]
    reader = ChangeReader(fs, DIRECTORY, 1, 9, ALL_COLUMNS)
    assert sorted(all_of(reader, halves), key=Cell.key) == SELECTED
    assert all_of(reader, halves[1:]) == sorted((SELECTED[0], *SELECTED[5:]), key=by_txn)
    served = ChangeReader(fs, DIRECTORY, 1, 9, ColumnSet.of(["g"]))
    assert len(all_of(served, halves)) == 3
    assert all_of(reader, halves, RowRange(b"b")) == []


def test_files_without_a_txn_of_the_range_are_not_opened() -> None:
    fs = new_fs()
    old, new = plain_cells(100), [Cell(b"row0000003", "info", b"q00000", 5_000, b"!", txn=500)]
    references = [
        Reference(file) for part in (old, new) for file in write(fs, part, session=f"s{len(part)}")
    ]
    fs.delete(path_of(references[0].file))
    reader = ChangeReader(fs, DIRECTORY, 100, 600, ALL_COLUMNS)
    assert [cell.value for cell in all_of(reader, references)] == [b"!"]


def test_values_of_blocks_without_a_change_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from stele.storage.fragment_reader import FragmentReader

    fs = new_fs()
    references = [Reference(file) for file in write(fs, plain_cells(1_000))]
    read: list[int] = []
    whole = FragmentReader.read_columns

    def counted(self: FragmentReader, group: int, columns: ColumnSelection) -> object:
        read.append(group)
        return whole(self, group, columns)

    monkeypatch.setattr(FragmentReader, "read_columns", counted)
    reader = ChangeReader(fs, DIRECTORY, 989, 1 << 40, ALL_COLUMNS)
    assert len(all_of(reader, references)) == 10
    assert len(read) <= 2


def test_the_columns_layout_tells_the_same() -> None:
    cells = [replace(cell, txn=int(cell.row[-2:]) + 1) for cell in people(60)]
    fs = new_fs()
    references = [Reference(file) for file in write_typed(fs, cells)]
    assert references[0].file.layout == "columns"
    reader = ChangeReader(fs, DIRECTORY, 20, 40, ALL_COLUMNS)
    found = all_of(reader, references, window=ChangeWindow(cells_max=9))
    assert found == sorted((cell for cell in cells if 20 < cell.txn <= 40), key=by_txn)
    names = all_of(reader, references, columns=ColumnSelection.parse(["info:name"]))
    assert {cell.qualifier for cell in names} == {b"name"}
    assert all_of(reader, references, columns=ColumnSelection.parse(["info:nobody"])) == []
