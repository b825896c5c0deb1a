"""Reading columns files: what is read, what is verified, what is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, SteleError
from stele.model.cells import Cell
from stele.model.columns import ColumnSelection
from stele.model.ranges import RowRange
from stele.model.typed_columns import TypedColumn
from stele.storage.fragment_columns_format import NativePart
from stele.storage.fragment_columns_reader import CHOICES_KEPT, ColumnsDecoder
from stele.storage.fragment_format import COLUMNS_LAYOUT
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from tests.unit.storage.columns_cases import people, tables, write_typed
from tests.unit.storage.fragment_cases import cells_of, new_fs, open_info, path_of

CELLS = people(150)
SMALL = FragmentOptions(block_cells=4)


def test_a_row_range_needs_its_row_groups_only() -> None:
    fs = new_fs()
    (info,) = write_typed(fs, CELLS, options=SMALL)
    with open_info(fs, info) as reader:
        rows = RowRange(b"row00040", b"row00060")
        assert cells_of(reader.blocks(rows)) == [c for c in CELLS if rows.contains(c.row)]
        assert len(reader.index.groups_of_row(b"row00040")) == 1
        assert len(reader.index) > 10
        (group,) = reader.index.groups_of_row(b"row00040")
        assert reader.may_contain(b"row00040", group)
        for number in range(len(reader.index)):
            assert reader.index.block_bytes(number) >= reader.read_block(number).nbytes


def test_a_few_columns_are_read_without_the_others() -> None:
    """Damage in a column that is not asked for is not even seen."""
    fs = new_fs()
    (info,) = write_typed(fs, CELLS, options=SMALL)
    with open_info(fs, info) as reader:
        names = [column.name for column in _native(reader).columns]
        leaf = 3 + names.index("info:name")
        chunks = reader.index.chunks[2]
        offset = int(reader.index.groups["offset"][2]) + int(chunks["bytes"][:leaf].sum())
    data = bytearray(fs.read_all(path_of(info)))
    data[offset + 3] ^= 1
    fs.write_atomic(path_of(info), bytes(data))
    with open_info(fs, info) as reader:
        good = reader.read_columns(2, ColumnSelection.parse(["info:age"]))
        assert {cell.qualifier for cell in cells_of([good])} == {b"age"}
        with pytest.raises(Corruption, match="column 4 of row group 2"):
            reader.read_columns(2, ColumnSelection.parse(["info:name"]))
        with pytest.raises(Corruption, match="row group 2"):
            reader.read_block(2)


def _native(reader: FragmentReader) -> NativePart:
    part = reader.index.metadata.native
    assert isinstance(part, NativePart)
    return part


@given(tables())
@settings(max_examples=30, deadline=None)
def test_txns_are_those_of_the_cells(table: tuple[tuple[TypedColumn, ...], list[Cell]]) -> None:
    """Of both layouts: none is missing, and only rows all of whose cells differ have another."""
    columns, cells = table
    fs = new_fs()
    for info in write_typed(fs, cells, columns):
        for file in info.files:
            with open_info(fs, file) as reader:
                for group in range(len(reader.index)):
                    found = set(reader.read_txns(group).tolist())
                    held = {cell.txn for cell in cells_of([reader.read_block(group)])}
                    assert found >= held
                    assert found <= held or file.layout == COLUMNS_LAYOUT


def test_columns_that_the_file_does_not_have_are_no_cells() -> None:
    fs = new_fs()
    (info,) = write_typed(fs, CELLS)
    with open_info(fs, info) as reader:
        assert reader.read_columns(0, ColumnSelection.parse(["x:y"])).count == 0
        everything = reader.read_columns(0, ColumnSelection.parse(None))
        assert cells_of([everything]) == cells_of([reader.read_block(0)])


def test_decoders_of_few_columns_are_kept() -> None:
    fs = new_fs()
    (info,) = write_typed(fs, CELLS)
    with open_info(fs, info) as reader:
        decoder = ColumnsDecoder(reader.index, reader.read_footer, "f")
        one = ColumnSelection.parse(["info:age"])
        assert decoder.choose(one) is decoder.choose(one)
        for at in range(CHOICES_KEPT):
            decoder.choose(ColumnSelection.parse([f"info:{at}"]))
        late = ColumnSelection.parse(["more:flag"])
        assert decoder.choose(late) is not decoder.choose(late)


@pytest.mark.parametrize(
    "changes", [{"layout": "cells"}, {"companion": None}, {"summary": None}], ids=str
)
def test_a_reference_must_mean_this_very_file(changes: dict[str, object]) -> None:
    fs = new_fs()
    (info,) = write_typed(fs, [*CELLS, Cell(b"zzz", "info", b"odd", 1, b"", txn=7)])
    if "summary" in changes:
        changes = {"summary": msgspec.structs.replace(info.summary, rows=1)}
    if "layout" in changes:
        changes = {"layout": "cells", "companion": None}
    other = msgspec.structs.replace(info, **changes)
    with pytest.raises(Corruption, match="other things of itself than its reference"):
        FragmentReader.open(fs, path_of(info), other)


def test_every_changed_bit_is_noticed() -> None:
    fs = new_fs()
    (info,) = write_typed(fs, people(12), options=SMALL)
    whole = fs.read_all(path_of(info))
    for at in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        fs.write_atomic(path_of(info), bytes(damaged))
        with pytest.raises(SteleError):
            _read_all_of_it(fs, path_of(info))


def _read_all_of_it(fs: MemoryFileSystem, path: str) -> None:
    with FragmentReader.open(fs, path) as reader:
        for group in range(len(reader.index)):
            reader.read_block(group)
            reader.bloom(group)
