"""Blocks become a fragment for each group: all cells of it, its row erasures, and no others."""

from __future__ import annotations

from stele.env.memory_fs import MemoryFileSystem
from stele.model.cells import Cell, Op, batch_to_cells
from stele.model.column_set import ALL_COLUMNS
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.storage.group_merge import (
    fragment_options,
    hidden_cells,
    merged,
    merged_blocks,
    write_groups,
)
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from tests.unit.tablet.engine_support import TABLE, TWO_GROUPS, block, cell, new_store


def test_row_erasures_go_into_every_group_and_nothing_is_dropped() -> None:
    erased = Cell(b"a", "", b"", 9, b"", Op.ERASE_ROW, 9)
    older, newer = cell(b"a", txn=1), cell(b"a", txn=10)
    cells = block(erased, older, newer, cell(b"a", "g"))
    a, b = TWO_GROUPS.groups

    def found(group: Group) -> list[Cell]:
        parts = merged([cells], TWO_GROUPS, group)
        return [each for part in parts for each in batch_to_cells(part.batch)]

    assert found(a) == [erased, newer, older]
    assert found(b) == [erased, cell(b"a", "g")]


def test_t71_cells_of_a_family_that_no_group_holds_are_not_written() -> None:
    files = MemoryFileSystem()
    store = new_store(files)
    narrow = Schema([Group("only", families=["f"])])
    with store.writing() as pending:
        assert write_groups(pending.write, TABLE, narrow, [block(cell(b"a", "g"))]) == ()
        (reference,) = write_groups(
            pending.write, TABLE, narrow, [block(cell(b"a"), cell(b"a", "g"))]
        )
    assert reference.families == ("f",)
    assert len(files.list(FRAGMENT_DIRECTORY)) == 1


def test_files_are_written_as_the_group_says() -> None:
    options = fragment_options(Group("a", compression="lz4", block_cells=512))
    assert (options.compression, options.block_cells) == ("lz4", 512)


def test_blocks_in_any_number_are_one_stream() -> None:
    parts = [block(cell(b"b"), cell(b"d")), block(cell(b"a"), cell(b"c")), block(cell(b"b", "g"))]
    found = [
        each for part in merged_blocks(parts, ALL_COLUMNS) for each in batch_to_cells(part.batch)
    ]
    assert [(each.row, each.family) for each in found] == [
        (b"a", "f"),
        (b"b", "f"),
        (b"b", "g"),
        (b"c", "f"),
        (b"d", "f"),
    ]


def test_hidden_cells_are_alone() -> None:
    erased = Cell(b"a", "", b"", 9, b"", Op.ERASE_ROW, 9)
    trace = Cell(b"a", "_retry", b"client", 9, b"1", txn=9)
    found = hidden_cells(block(erased, trace, cell(b"a")))
    assert batch_to_cells(found.batch) == [trace]
    assert hidden_cells(block(erased, cell(b"a"))).count == 0
