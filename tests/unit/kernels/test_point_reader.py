"""Single rows against the definition of a read, with blocks in and out of memory."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.bloom import BloomFilter
from stele.kernels.filter import ByteFilters
from stele.kernels.point_get import CELLS_MAX
from stele.kernels.point_index import PointFragment, PointIndex
from stele.kernels.point_reader import (
    PACKED_KEPT_BYTES,
    QUICK_CELLS_MAX,
    Missing,
    PackedRow,
    PointReader,
    PointScratch,
)
from stele.kernels.resolve import ReadView
from stele.model.cells import Cell, Op
from stele.model.columns import ColumnSelection
from stele.model.filters import equal
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from tests.oracles import cells as oracle
from tests.oracles import reads, strategies
from tests.oracles.blocks import block_of
from tests.oracles.cells import Reference
from tests.oracles.fragments import cut, draw_index, fragment_of, index_of, table_of


def found(reader: PointReader, row: bytes, txn: int | None = None) -> list[Cell]:
    packed = reader.get(row, txn)
    return [] if packed is None else packed.cells()


@settings(max_examples=300)
@given(st.data())
def test_a_row_is_what_a_read_of_everything_sees_of_it(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 4, restricted=data.draw(st.booleans())))
    index, _ = draw_index(data, references)
    txn = data.draw(st.sampled_from(world.txns))
    view = ReadView(versions=data.draw(st.sampled_from([None, 1, 2])))
    reader = PointReader(index, view)
    visible = oracle.read(references, txn=txn, versions=view.versions)
    for row in (*world.rows, b"no such row"):
        assert found(reader, row, txn) == [cell for cell in visible if cell.row == row]


@settings(max_examples=100)
@given(st.data())
def test_filters_and_columns_of_a_row(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 3))
    index, _ = draw_index(data, references)
    columns = ColumnSelection.parse([f"{world.families[0]}:", f"{world.families[-1]}:q"])
    spec = CellSpec(
        columns=columns, filters=(equal("value", b"", b"v"),), versions=None, cells_per_row=2
    )
    filters = ByteFilters(index.families, spec.columns, spec.filters, spec.cells_per_row)
    reader = PointReader(index, ReadView(), filters)
    for row in world.rows:
        visible = [cell for cell in oracle.read(references) if cell.row == row]
        assert found(reader, row) == reads.filtered(visible, spec)


def row_of(count: int, size: int = 3) -> list[Cell]:
    return [Cell(b"r", "f", b"%06d" % number, 1, b"v" * size, txn=1) for number in range(count)]


def test_a_large_row_makes_the_reader_grow() -> None:
    scratch = PointScratch()
    for cells in (row_of(1), row_of(2_000), row_of(3, size=100_000)):
        index = PointIndex([PointFragment.in_memory(block_of(cells))])
        assert found(PointReader(index, ReadView(), scratch=scratch), b"r") == cells


def test_a_very_large_row_is_read_without_keeping_the_others_waiting() -> None:
    cells = row_of(QUICK_CELLS_MAX + 1)
    index = PointIndex([PointFragment.in_memory(block_of(cells)) for cells in (cells, cells[:1])])
    scratch = PointScratch()
    reader = PointReader(index, ReadView(), scratch=scratch)
    assert found(reader, b"r") == cells
    assert isinstance(reader.get_cached(b"r"), PackedRow)
    assert scratch.numbers[CELLS_MAX] < QUICK_CELLS_MAX


def test_a_row_in_more_fragments_than_a_reader_begins_with() -> None:
    cells = row_of(100)
    index = PointIndex([PointFragment.in_memory(block_of([cell])) for cell in cells])
    assert found(PointReader(index, ReadView()), b"r") == cells


def test_a_missing_block_is_named_once_it_is_needed() -> None:
    cells = [Cell(b"%02d" % number, "f", b"q", 1, txn=1) for number in range(10)]
    fragment, table = fragment_of(Reference(cells), [4, 8])
    reader = PointReader(PointIndex([fragment]), ReadView())
    assert reader.get_cached(b"00") == Missing(0, 0)
    assert reader.get_cached(b"09") == Missing(0, 2)
    assert reader.get_cached(b"/") is None
    table.load(2)
    assert found(reader, b"09") == cells[9:]
    assert table.used.tolist() == [0, 0, 1]
    assert found(reader, b"04") == cells[4:5]
    assert table.loads == [1]
    table.drop(1)
    assert reader.get_cached(b"04") == Missing(0, 1)


def test_a_row_that_spans_blocks_is_read_from_all_of_them() -> None:
    cells = [Cell(b"a", "f", b"q", 1, txn=1), *row_of(10), Cell(b"z", "f", b"q", 1, txn=1)]
    fragment, table = fragment_of(Reference(cells), [3, 5, 7])
    reader = PointReader(PointIndex([fragment]), ReadView())
    assert found(reader, b"r") == cells[1:11]
    assert table.loads == [0, 1, 2, 3]
    assert found(reader, b"a") == cells[:1]


def test_rows_outside_the_fence_do_not_exist() -> None:
    cells = [Cell(b"%02d" % number, "f", b"q", 1, txn=1) for number in range(10)]
    fragment, table = fragment_of(Reference(cells), [5], RowRange(b"03", b"07"))
    reader = PointReader(PointIndex([fragment]), ReadView())
    rows = [number for number in range(10) if found(reader, b"%02d" % number)]
    assert rows == [3, 4, 5, 6]
    assert table.loads == [0, 1]


def bloom_of(rows: list[bytes]) -> BloomFilter:
    sink = io.BytesIO()
    column = pa.table({"row": pa.array(rows, pa.binary())})
    options = {"row": {"ndv": len(rows), "fpp": 0.001}}
    with pq.ParquetWriter(sink, column.schema, bloom_filter_options=options) as writer:
        writer.write_table(column)
    chunk = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0).column(0)
    start = chunk.bloom_filter_offset
    return BloomFilter.parse(sink.getvalue()[start : start + chunk.bloom_filter_length])


def test_a_bloom_filter_saves_the_load() -> None:
    cells = [Cell(b"%03d" % number, "f", b"q", 1, txn=1) for number in range(0, 100, 2)]
    pieces = cut(cells, [25])
    blooms = [bloom_of([cell.row for cell in pieces[0]]), None]
    table = table_of(pieces)
    fragment = PointFragment(index_of(pieces), table, ("f",), blooms=blooms)
    reader = PointReader(PointIndex([fragment]), ReadView())
    assert reader.get(b"001") is None
    assert not table.loads
    assert reader.get_cached(b"000") == Missing(0, 0)
    assert reader.get(b"051") is None
    assert table.loads == [1]


@pytest.mark.parametrize(
    "rows",
    [
        [b"%08d" % number for number in range(3_000)],
        [b"%08d" % (number**3) for number in range(464)],
        sorted(b"k" * (number // 50) + bytes([number % 50]) for number in range(3_000)),
        [b"same", *(b"same\xff" + b"%04d" % number for number in range(2_000)), b"tame"],
    ],
    ids=["evenly", "cubes", "lengths", "far away"],
)
def test_rows_are_found_however_they_are_spread(rows: list[bytes]) -> None:
    cells = [Cell(row, "f", b"q%d" % n, 1, b"v", txn=1) for row in rows for n in range(3)]
    for last in (len(cells) - 1, len(cells)):
        fragment, table = fragment_of(Reference(cells[:last]), [1_200, 3_300])
        for number in range(len(table.stored)):
            table.load(number)
        reader = PointReader(PointIndex([fragment]), ReadView())
        for row in rows[::7]:
            assert [cell.row for cell in found(reader, row)] == [row] * 3
            assert reader.get(row + b"\x00") is None


def test_an_erasure_in_one_fragment_hides_what_another_has() -> None:
    put, erasure = row_of(1)[0], Cell(b"r", "", b"", 9, op=Op.ERASE_ROW, txn=5)
    index = PointIndex([PointFragment.in_memory(block_of([cell])) for cell in (put, erasure)])
    reader = PointReader(index, ReadView())
    assert reader.get(b"r") is None
    assert found(reader, b"r", txn=4) == [put]
    assert reader.get(b"r") is None


def test_no_fragments_hold_no_rows() -> None:
    assert PointReader(PointIndex([]), ReadView()).get(b"r") is None


def test_a_carried_txn_needs_to_know_the_size_of_blocks() -> None:
    cells = row_of(1)
    with pytest.raises(AssertionError, match="how many cells"):
        PointFragment(index_of([cells]), table_of([cells]), ("f",), txn=5)


def test_the_memory_of_a_very_large_row_is_given_back() -> None:
    large = Cell(b"large", "f", b"q", 1, b"v" * PACKED_KEPT_BYTES, txn=1)
    medium = Cell(b"medium", "f", b"q", 1, b"v" * (PACKED_KEPT_BYTES // 2), txn=1)
    fragment, _ = fragment_of(Reference([large, medium]), [])
    scratch = PointScratch()
    reader = PointReader(PointIndex([fragment]), ReadView(), scratch=scratch)
    for _ in range(2):
        assert found(reader, b"large") == [large]
        assert len(scratch.packed) < PACKED_KEPT_BYTES
    for _ in range(2):
        assert found(reader, b"medium") == [medium]
        assert len(scratch.packed) == PACKED_KEPT_BYTES, "it may come again"
