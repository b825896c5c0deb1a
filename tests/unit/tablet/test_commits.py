"""Requests on their way into the log (T20, T69, T89)."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidCells
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Cell, Op, batch_to_cells
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.storage.memory_table import MemoryTable
from stele.tablet.commits import BatchCommit, Request, SingleCommit, SmallCommit, prepare
from stele.tablet.families import FamilyNames
from stele.tablet.options import SMALL_COMMIT_CELLS_MAX
from tests.unit.tablet.engine_support import ONE_GROUP, TABLE, puts

FAMILIES = FamilyNames(ONE_GROUP)
NARROW = Schema([Group("only", families=["f"])])


def batch_of(count: int, family: str = "f") -> MutationBatch:
    batch = MutationBatch()
    for number in range(count):
        batch.put(b"row%05d" % number, family, b"q", b"v")
    return batch


def stamped(request: Request, txn: int) -> list[Cell]:
    memory = MemoryTable()
    commit = request.stamp(TABLE, txn, memory)
    assert commit.txn == txn
    blocks = memory.version.blocks(txn)
    return [each for block in blocks for each in batch_to_cells(block.batch)]


def test_few_cells_travel_as_records_and_many_as_a_batch() -> None:
    assert isinstance(prepare(batch_of(1), FAMILIES), SingleCommit)
    assert isinstance(prepare(batch_of(SMALL_COMMIT_CELLS_MAX), FAMILIES), SmallCommit)
    assert isinstance(prepare(batch_of(SMALL_COMMIT_CELLS_MAX + 1), FAMILIES), BatchCommit)
    assert isinstance(prepare(batch_of(1).to_arrow(), FAMILIES), BatchCommit)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_both_ways_give_the_same_cells(count: int) -> None:
    expected = [
        Cell(each.row, each.family, each.qualifier, 7, each.value, each.op, 7)
        for each in batch_of(count).cells()
    ]
    assert stamped(prepare(batch_of(count), FAMILIES), 7) == expected
    assert stamped(prepare(batch_of(count).to_arrow(), FAMILIES), 7) == expected


def test_a_put_without_a_timestamp_takes_the_txn_and_an_erasure_keeps_its_bound() -> None:
    batch = MutationBatch()
    batch.put(b"a", "f", b"q", b"now")
    batch.put(b"a", "f", b"q", b"then", 3)
    batch.erase_column(b"a", "f", b"q")
    found = stamped(prepare(batch, FAMILIES), 7)
    assert {(each.op, each.timestamp) for each in found} == {
        (Op.PUT, 7),
        (Op.PUT, 3),
        (Op.ERASE_COLUMN, TIMESTAMP_MAX),
    }


@pytest.mark.parametrize("count", [3, 100])
def test_rows_and_spans(count: int) -> None:
    request = prepare(batch_of(count), FAMILIES)
    last = b"row%05d" % (count - 1)
    assert request.span() == RowRange(b"row00000", last + b"\x00")
    listed = request.rows
    if isinstance(request, BatchCommit):
        assert listed is None
        assert len(request.distinct_rows()) == count
        stamped(request, 7)
        bulk = request.remembered(7)
        assert bulk.contains(last)
        assert not bulk.contains(last + b"x")
        assert not bulk.contains(b"")
    else:
        assert listed == [b"row%05d" % number for number in range(count)]
        assert request.remembered(7) is None
    assert request.size_bytes > count * 9


@pytest.mark.parametrize("others", [0, 100], ids=["records", "batch"])
def test_a_timestamp_that_the_txn_happens_to_have_is_one_version(others: int) -> None:
    batch = batch_of(others)
    for timestamp in (None, 6, 7, 8):
        batch.put(b"a", "f", b"q", b"%a" % timestamp, timestamp)
    batch.put(b"a", "f", b"r", b"7", 7)
    batch.erase_cell(b"a", "f", b"q", 7)
    for request in (prepare(batch, FAMILIES), prepare(batch.to_arrow(), FAMILIES)):
        cells = stamped(request, 7)
        found = [(one.op, one.timestamp, one.value) for one in cells if one.row == b"a"]
        assert found == [
            (Op.PUT, 8, b"8"),
            (Op.ERASE_CELL, 7, b""),
            (Op.PUT, 7, b"None"),
            (Op.PUT, 6, b"6"),
            (Op.PUT, 7, b"7"),
        ]
        assert len(cells) == len(found) + others


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from([b"a", b"b", b"c" * 40]),
            st.sampled_from(["f", "g", "h"]),
            st.binary(max_size=9),
            st.sampled_from([3, 7, 9, None]),
        ),
        st.binary(max_size=20),
        min_size=1,
        max_size=20,
    ),
    st.permutations(["f", "g", "h", "unused"]),
    st.data(),
)
def test_a_batch_from_outside_becomes_what_one_of_our_own_becomes(
    given_puts: dict[tuple[bytes, str, bytes, int | None], bytes],
    names: list[str],
    data: st.DataObject,
) -> None:
    """The former is described by kernels, the latter by Arrow."""
    mutations = MutationBatch()
    for (row, family, qualifier, timestamp), value in given_puts.items():
        mutations.put(row, family, qualifier, value, timestamp)
    arrow = mutations.to_arrow()
    codes = [names.index(name) for name in arrow.column(1).to_pylist()]
    family = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(names))
    arrow = arrow.set_column(1, MUTATIONS.field(1), family)
    arrow = arrow.slice(data.draw(st.integers(0, arrow.num_rows - 1)))
    outside, own = prepare(arrow, FAMILIES), prepare(arrow, FAMILIES, trusted=True)
    assert outside.size_bytes == own.size_bytes
    assert outside.span() == own.span()
    assert stamped(outside, 7) == stamped(own, 7)
    assert logged(outside) == logged(own)
    assert isinstance(outside, BatchCommit)
    assert outside.distinct_rows() == arrow.column(0).unique().to_pylist()


def logged(request: Request) -> bytes:
    commit = request.stamp(TABLE, 8, MemoryTable())
    return b"".join(bytes(memoryview(piece)) for piece in commit.content)


def test_what_is_remembered_of_a_bulk_commit_are_its_rows_and_nothing_else() -> None:
    batch = batch_of(100).to_arrow().slice(10, 50)
    bulk, cells = prepare(batch, FAMILIES).remembered(7), weakref.ref(batch)
    assert bulk is not None
    del batch
    gc.collect()
    assert cells() is None
    inside = [bulk.contains(b"row%05d" % number) for number in range(100)]
    assert inside == [10 <= number < 60 for number in range(100)]
    assert bulk.size_bytes == 50 * (8 + 4)


def test_t69_families_that_no_group_holds_are_refused_by_name() -> None:
    for batch in (batch_of(1, "g"), batch_of(100, "g"), batch_of(1, "g").to_arrow()):
        with pytest.raises(InvalidCells, match="g"):
            prepare(batch, FamilyNames(NARROW))
    prepare(batch_of(1, "g"), FAMILIES)


def test_a_row_erasure_needs_no_family() -> None:
    batch = MutationBatch()
    batch.erase_row(b"a")
    assert [each.op for each in stamped(prepare(batch, FamilyNames(NARROW)), 7)] == [Op.ERASE_ROW]


def test_t20_empty_and_disordered_requests_are_refused() -> None:
    with pytest.raises(InvalidCells, match="at least one"):
        prepare(MutationBatch(), FAMILIES)
    arrow = batch_of(3).to_arrow()
    with pytest.raises(InvalidCells, match="at least one"):
        prepare(arrow.slice(0, 0), FAMILIES)
    with pytest.raises(InvalidCells):
        prepare(arrow.take([2, 1, 0]), FAMILIES)


def test_a_mutation_twice_in_one_batch_is_refused() -> None:
    batch = puts((b"a", "f", b"1"), (b"a", "f", b"2"))
    with pytest.raises(InvalidCells, match="twice"):
        prepare(batch, FAMILIES)
