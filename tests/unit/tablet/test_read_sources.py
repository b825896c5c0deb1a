"""What a read of a tablet merges (T54)."""

from __future__ import annotations

from stele.kernels.resolve import merge_resolve
from stele.model.cells import TIMESTAMP_MAX, batch_to_cells
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.columns import ColumnSelection
from stele.model.groups import Group
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.storage.memory_table import MemoryTable
from stele.storage.references import Reference
from stele.tablet.range_map import RangeMap
from stele.tablet.read_sources import (
    ReadCounters,
    fragment_stream,
    memory_blocks,
    read_view,
    tablet_streams,
)
from stele.tablet.table_state import TableLayout
from tests.unit.tablet.engine_support import block, cell, fragment, new_store

STORE = new_store()
INFO = fragment(STORE, [cell(b"%04d" % number) for number in range(600)])


def rows_of(reference: Reference, *, reverse: bool = False) -> list[bytes]:
    stream = fragment_stream(STORE, reference, ReadCounters(), reverse=reverse)
    return [each.row for source in stream for each in batch_to_cells(source.block.batch)]


def test_a_stream_is_fenced() -> None:
    assert rows_of(Reference(INFO, RowRange(b"0100", b"0103"))) == [b"0100", b"0101", b"0102"]
    assert len(rows_of(Reference(INFO))) == 600
    assert rows_of(Reference(INFO, RowRange(b"9"))) == []


def test_a_reversed_stream_gives_the_last_block_first() -> None:
    assert rows_of(Reference(INFO), reverse=True)[0] == b"0512"


def test_only_blocks_that_may_hold_something_are_read_and_cached_ones_are_counted() -> None:
    store = new_store()
    info = fragment(store, [cell(b"%04d" % number) for number in range(600)])
    reference = Reference(info, RowRange(b"0300", b"0310"))
    counters = ReadCounters()
    list(fragment_stream(store, reference, counters))
    assert (counters.blocks_from_disk, counters.blocks_from_cache) == (1, 0)
    store.open(info).blocks.get(1)
    list(fragment_stream(store, reference, counters))
    assert (counters.blocks_from_disk, counters.blocks_from_cache) == (1, 1)
    assert counters.fragments == {info.name}


def test_a_row_that_goes_on_in_the_next_block_says_so() -> None:
    store = new_store()
    info = fragment(
        store, [*(cell(b"big", txn=txn) for txn in range(1, 3_000)), cell(b"next", txn=1)]
    )
    for reference in (Reference(info), Reference(info, RowRange(b"big", b"next"))):
        sources = list(fragment_stream(store, reference, ReadCounters()))
        *before, last = [source for source in sources if source.block.row(0) == b"big"]
        assert before
        assert all(source.continues for source in before)
        assert not last.continues


def test_memory_is_cut_to_the_rows_and_left_out_when_it_is_younger() -> None:
    memory = MemoryTable()
    memory.add_block(5, block(cell(b"a", txn=5), cell(b"k", txn=5)))
    memory.add_block(9, block(cell(b"b", txn=9)))
    found = memory_blocks(memory.version, RowRange(b"a", b"c"), 5)
    assert [each.row for part in found for each in batch_to_cells(part.batch)] == [b"a"]
    assert len(memory_blocks(memory.version, RowRange(b"a", b"c"), 9)) == 2
    assert memory_blocks(memory.version, RowRange(b"x"), 9) == []


def test_t71_a_view_has_only_columns_that_are_asked_for_and_served() -> None:
    layout = TableLayout(Schema([Group("a", ["f"]), Group("b", ["g"])]), RangeMap())
    everything = read_view(layout, CellSpec(), 7).columns
    assert {name for name in ("f", "g", "h") if name in everything} == {"f", "g"}
    some = read_view(layout, CellSpec(columns=ColumnSelection.parse(["g:", "h:q"])), 7)
    assert some.columns == ColumnSet.of(["g"])
    assert some.txn == 7
    assert some.time_end is None
    assert read_view(layout, CellSpec(time_end=TIMESTAMP_MAX - 1), 7).time_end is not None


def test_a_merge_of_all_streams_gives_every_cell_once() -> None:
    first = fragment(STORE, [cell(b"a"), cell(b"m")])
    second = fragment(STORE, [cell(b"b"), cell(b"z")])
    in_memory = [block(cell(b"c"))]
    counters = ReadCounters()
    references = [Reference(first), Reference(second)]
    streams = tablet_streams(STORE, references, in_memory, ALL_COLUMNS, counters)
    layout = TableLayout(Schema(), RangeMap())
    sources = [source for stream in streams for source in stream]
    merged = merge_resolve(sources, read_view(layout, CellSpec(), 9)).gather()
    rows = [each.row for part in merged for each in batch_to_cells(part.batch)]
    assert rows == [b"a", b"b", b"c", b"m", b"z"]
    assert counters.memory_blocks == 1
