"""The columns layout as a whole: what is written comes back, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.failpoints import armed, fail
from stele.errors import StorageFailed
from stele.kernels.block import Block
from stele.model.cells import Cell, Op
from stele.model.columns import ColumnSelection
from stele.model.typed_columns import TypedColumn
from stele.storage import fragment_columns_writer
from stele.storage.fragment_check import check_fragment
from stele.storage.fragment_columns_format import NativePart
from stele.storage.fragment_columns_writer import choose_columns, write_typed_fragment
from stele.storage.fragment_format import CELLS_LAYOUT, COLUMNS_LAYOUT, FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from tests.unit.storage.columns_cases import (
    SOME_COLUMNS,
    people,
    read_files,
    tables,
    typed,
    write_typed,
)
from tests.unit.storage.fragment_cases import (
    DIRECTORY,
    cells_of,
    in_order,
    new_fs,
    open_info,
    path_of,
    read_all,
    to_blocks,
    write,
)


def native_part(fs: object, info: FragmentInfo) -> NativePart:
    with open_info(fs, info) as reader:  # type: ignore[arg-type]
        part = reader.index.metadata.native
        assert isinstance(part, NativePart)
        return part


@settings(max_examples=250, deadline=None)
@given(tables(), st.sampled_from([1, 2, 16]), st.sampled_from([None, 1, 7]))
def test_both_layouts_expand_to_the_same_cells(
    table: tuple[tuple[TypedColumn, ...], list[Cell]], block_cells: int, block_size: int | None
) -> None:
    columns, cells = table
    options = FragmentOptions(block_cells=block_cells, file_groups=3)
    fs, other = new_fs(), new_fs()
    infos = write_typed(fs, cells, columns, options, block_size=block_size)
    assert read_files(fs, infos) == cells == read_all(other, write(other, cells, options))
    for info in infos:
        assert check_fragment(fs, path_of(info), info) == info.summary


@settings(max_examples=60, deadline=None)
@given(tables(), st.lists(st.sampled_from(["a:", "info:a", "z:b", "info:"]), max_size=3))
def test_a_few_columns_are_those_of_the_whole(
    table: tuple[tuple[TypedColumn, ...], list[Cell]], names: list[str]
) -> None:
    columns, cells = table
    selection = ColumnSelection.parse(names)
    fs = new_fs()
    for info in write_typed(fs, cells, columns, FragmentOptions(block_cells=2)):
        with open_info(fs, info) as reader:
            for group in range(len(reader.index)):
                few = cells_of([reader.read_columns(group, selection)])
                whole = cells_of([reader.read_block(group)])
                if info.layout == COLUMNS_LAYOUT:
                    assert all(selection.contains(cell.family, cell.qualifier) for cell in few)
                wanted = [cell for cell in whole if selection.contains(cell.family, cell.qualifier)]
                assert wanted == [
                    cell for cell in few if selection.contains(cell.family, cell.qualifier)
                ]


def test_plain_rows_need_no_companion() -> None:
    fs = new_fs()
    cells = people(100)
    (info,) = write_typed(fs, cells)
    assert (info.layout, info.companion) == (COLUMNS_LAYOUT, None)
    assert info.summary.is_clean
    part = native_part(fs, info)
    assert (part.cells, part.rows, part.complete) == (len(cells), 100, True)
    assert not any(column.own_stamps for column in part.columns)
    assert len(fs.list(DIRECTORY)) == 1


def test_what_is_not_native_is_in_the_companion() -> None:
    fs = new_fs()
    odd = [
        Cell(b"row00001", "info", b"age", 999, (5).to_bytes(8, "big"), txn=3),  # an older version
        Cell(b"row00002", "info", b"age", 2_000, b"no number", txn=9),  # newest, undecodable
        Cell(b"row00003", "info", b"nobody declared it", 1_000, b"x", txn=7),
        Cell(b"row00004", "", b"", 500, b"", Op.ERASE_ROW, txn=2),
        Cell(b"row99999", "info", b"alone", 1_000, b"x", txn=7),  # no native cell in this row
    ]
    cells = in_order([*people(30), *odd])
    (info,) = write_typed(fs, cells)
    assert info.companion is not None
    assert info.summary.cells == len(cells)
    assert info.summary.last_row == b"row99999"
    # The version that an undecodable one replaced is not the newest, and stays with it.
    assert info.companion.summary.cells == len(odd) + 1
    part = native_part(fs, info)
    assert (part.last_row, part.complete) == (b"row00029", False)
    assert read_files(fs, [info]) == cells
    assert check_fragment(fs, path_of(info), info) == info.summary


def test_erased_puts_are_not_native() -> None:
    """Only what a read sees is: so the native columns answer reads of the newest by themselves."""
    fs = new_fs()
    erased = Cell(b"row00001", "info", b"", 5_000, b"", Op.ERASE_FAMILY, txn=99)
    (info,) = write_typed(fs, in_order([*people(10), erased]))
    assert native_part(fs, info).complete
    with open_info(fs, info) as reader:
        rows = {cell.row for cell in cells_of(reader.blocks()) if cell.family == "info"}
    assert rows == {b"row%05d" % at for at in range(10) if at != 1}


def test_a_cell_that_differs_from_its_row_keeps_its_time_and_txn() -> None:
    fs = new_fs()
    cells = people(40)
    late = Cell(b"row00003", "info", b"age", 7_000, (1).to_bytes(8, "big"), txn=50)
    cells = in_order(late if c.row == late.row and c.qualifier == b"age" else c for c in cells)
    (info,) = write_typed(fs, cells)
    assert info.companion is None
    own = {column.name for column in native_part(fs, info).columns if column.own_stamps}
    assert own == {"info:age"}
    assert read_files(fs, [info]) == cells


def test_differences_that_come_late_begin_another_file() -> None:
    fs = new_fs()
    cells = people(400)
    changed = [
        Cell(c.row, c.family, c.qualifier, 9_000, c.value, txn=70)
        if c.qualifier == b"name" and c.row >= b"row00300"
        else c
        for c in cells
    ]
    infos = write_typed(fs, changed)
    assert [info.companion for info in infos] == [None, None]
    first, second = (native_part(fs, info) for info in infos)
    assert not any(column.own_stamps for column in first.columns)
    assert all(column.own_stamps for column in second.columns)
    assert read_files(fs, infos) == in_order(changed)


@pytest.mark.parametrize(
    ("share", "layout"), [(0.0, COLUMNS_LAYOUT), (0.4, COLUMNS_LAYOUT), (0.6, CELLS_LAYOUT)]
)
def test_more_than_half_of_the_cells_must_be_like_their_rows(share: float, layout: str) -> None:
    cells = [
        Cell(b"row%05d" % at, "info", b"age", 1, (1).to_bytes(8, "big"), txn=1)
        if at >= 100 * share
        else Cell(b"row%05d" % at, "info", b"other", 1, b"", txn=1)
        for at in range(100)
    ]
    (info, *_) = write_typed(new_fs(), cells)
    assert info.layout == layout


def test_a_widened_column_is_stored_as_most_of_its_cells_are() -> None:
    column = typed(0, "info:age", "int64", "int32")
    for width, kind in ((4, "int32"), (8, "int64")):
        fs = new_fs()
        cells = [
            Cell(b"row%03d" % at, "info", b"age", 1, at.to_bytes(width, "big"), txn=1)
            for at in range(40)
        ]
        other = Cell(b"z", "info", b"age", 1, (3).to_bytes(12 - width, "big"), txn=1)
        (info,) = write_typed(fs, [*cells, other], [column])
        (found,) = native_part(fs, info).columns
        assert found.type == kind
        assert info.companion is not None
        assert info.companion.summary.cells == 1
        assert read_files(fs, [info]) == [*cells, other]


def test_a_file_outlives_the_schema_it_was_written_with() -> None:
    """Columns that were added, dropped or renamed since change nothing in a file."""
    fs = new_fs()
    cells = people(20)
    infos = write_typed(fs, cells, SOME_COLUMNS[:2])
    assert read_files(fs, infos) == cells
    (again,) = write_typed(fs2 := new_fs(), read_files(fs, infos), SOME_COLUMNS)
    assert native_part(fs2, again).cells == len(cells)
    assert read_files(fs2, [again]) == cells


def test_a_row_larger_than_a_row_group_stays_cells() -> None:
    fs = new_fs()
    huge = [Cell(b"row00005", "info", b"q%05d" % at, 1, b"x" * 10, txn=1) for at in range(1_000)]
    cells = in_order([*people(3_000), *huge])
    infos = write_typed(fs, cells, options=FragmentOptions(block_cells=16))
    assert any(info.layout == COLUMNS_LAYOUT for info in infos)
    assert read_files(fs, infos) == cells
    for info in infos:
        assert check_fragment(fs, path_of(info), info) == info.summary


def test_without_native_cells_there_is_one_file_of_cells() -> None:
    fs = new_fs()
    cells = people(200)
    tail = [Cell(b"s%05d" % at, "info", b"else", 1, b"", txn=1) for at in range(20)]
    infos = write_typed(fs, [*cells, *tail], borders=[b"s"])
    assert [info.layout for info in infos] == [COLUMNS_LAYOUT, CELLS_LAYOUT]
    assert len(fs.list(DIRECTORY)) == 2
    assert read_files(fs, infos) == [*cells, *tail]


def test_files_end_at_borders_and_when_they_are_full() -> None:
    fs = new_fs()
    cells = people(300)
    infos = write_typed(
        fs, cells, options=FragmentOptions(block_cells=4, file_groups=2), borders=[b"row00100"]
    )
    assert len(infos) > 3
    ends = [info.summary.last_row for info in infos]
    assert b"row00099" in ends
    assert read_files(fs, infos) == cells


def test_the_first_cells_choose_the_columns() -> None:
    cells = people(20)
    chosen = choose_columns(to_blocks(cells, 7), SOME_COLUMNS)
    assert [column.name for column in chosen] == [str(c.column) for c in SOME_COLUMNS]
    assert choose_columns(to_blocks(cells), ()) == ()
    assert choose_columns([], SOME_COLUMNS) == ()
    nothing_declared = [Cell(b"row", "info", b"q%d" % at, 1, b"", txn=1) for at in range(3)]
    assert choose_columns(to_blocks(nothing_declared), SOME_COLUMNS) == ()


def test_no_cells_give_no_files() -> None:
    fs = new_fs()
    assert write_typed(fs, []) == ()
    assert fs.list(DIRECTORY) == []


@pytest.mark.parametrize("point", ["after_group", "after_companion", "after_footer", "after_sync"])
def test_a_failed_write_leaves_nothing(point: str) -> None:
    fs = new_fs()
    odd = Cell(b"row00003", "info", b"odd", 1, b"", txn=1)
    with armed(f"storage.columns.{point}", fail()), pytest.raises(StorageFailed):
        write_typed(fs, in_order([*people(50), odd]))
    assert fs.list(DIRECTORY) == []


def test_large_cells_are_not_gathered_before_the_layout_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fragment_columns_writer, "SAMPLE_BYTES", 10_000)
    fs, files_then = new_fs(), list[int]()
    cells = [Cell(b"%03d" % n, "info", b"photo", 1, b"p" * 1_000, txn=1) for n in range(100)]

    def blocks() -> Iterator[Block]:
        for block in to_blocks(cells, 1):
            files_then.append(len(fs.list(DIRECTORY)))
            yield block

    infos = write_typed_fragment(
        fs,
        DIRECTORY,
        NameSequence("session-1"),
        blocks(),
        table="t",
        columns=SOME_COLUMNS,
        options=FragmentOptions(block_cells=2),
    )
    assert read_files(fs, infos) == cells
    assert 1 in files_then[:20], "a file was begun before all cells were there"
