"""What a read sees, against the definition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.sources import Facts, Source
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN, Cell, Op
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from tests.oracles import cells as oracle
from tests.oracles import strategies, sweep
from tests.oracles.blocks import block_of, cells_of, sources_of
from tests.oracles.cells import Reference


def read(references: list[Reference], view: ReadView) -> list[Cell]:
    return cells_of(merge_resolve(sources_of(references), view).gather())


def expected(references: list[Reference], view: ReadView) -> list[Cell]:
    return oracle.read(
        references,
        txn=view.txn,
        versions=view.versions,
        time_start=view.time_start,
        time_end=view.time_end,
        columns=view.columns,
    )


@settings(max_examples=300)
@given(st.data())
def test_reads_at_every_txn_and_number_of_versions(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    for txn in (world.txns[0], *data.draw(st.lists(st.sampled_from(world.txns), max_size=3))):
        for versions in (None, 1, 2):
            view = ReadView(txn=txn, versions=versions)
            assert read(references, view) == expected(references, view)


def test_many_tiny_reads() -> None:
    for references in sweep.tiny_references(sets=3_000, seed=2):
        for view in (ReadView(), ReadView(txn=4, versions=1)):
            assert read(references, view) == expected(references, view)


@settings(max_examples=300)
@given(st.data())
def test_references_act_on_exactly_their_columns(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 4, restricted=True))
    view = ReadView(
        txn=data.draw(st.sampled_from(world.txns)),
        versions=data.draw(st.sampled_from([None, 1])),
        columns=data.draw(strategies.column_sets(world)),
    )
    assert read(references, view) == expected(references, view)


@settings(max_examples=200)
@given(st.data())
def test_versions_are_counted_within_the_time_range(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    start = data.draw(st.sampled_from([TIMESTAMP_MIN, *world.timestamps]))
    ends = [stamp for stamp in (*world.timestamps, TIMESTAMP_MAX) if stamp > start]
    for end in (None, *ends[:2]):
        for versions in (None, 1):
            view = ReadView(versions=versions, time_start=start, time_end=end)
            assert read(references, view) == expected(references, view)


def put(row: bytes, qualifier: bytes, timestamp: int, txn: int) -> Cell:
    return Cell(row, "f", qualifier, timestamp, b"value", txn=txn)


def test_a_put_after_a_delete_is_visible_whatever_its_timestamp() -> None:
    erasure = Cell(b"r", "", b"", TIMESTAMP_MAX, op=Op.ERASE_ROW, txn=10)
    before, after = put(b"r", b"q", 5, 9), put(b"r", b"q", 1, 11)
    references = [Reference([erasure, before]), Reference([after])]
    assert read(references, ReadView()) == [after]
    assert read(references, ReadView(txn=9)) == [before]


def test_a_row_erasure_does_not_reach_beyond_its_columns() -> None:
    erasure = Cell(b"r", "", b"", TIMESTAMP_MAX, op=Op.ERASE_ROW, txn=10)
    here, there = put(b"r", b"q", 5, 1), replace(put(b"r", b"q", 5, 2), family="g")
    references = [Reference([erasure], ColumnSet.of(["f"])), Reference([here, there])]
    assert read(references, ReadView()) == [there]


def test_copies_of_a_row_erasure_reach_the_columns_of_all_of_them() -> None:
    erasure = Cell(b"r", "", b"", TIMESTAMP_MAX, op=Op.ERASE_ROW, txn=10)
    here, there = put(b"r", b"q", 5, 1), replace(put(b"r", b"q", 5, 2), family="g")
    references = [
        Reference([erasure], ColumnSet.of(["f"])),
        Reference([erasure], ColumnSet.of(["g"])),
        Reference([here, there]),
    ]
    assert read(references, ReadView()) == []


CLEAN = [put(b"r%d" % number, b"q", 1, 5) for number in range(10)]


@pytest.mark.parametrize(
    ("view", "passes"),
    [
        (ReadView(txn=5, versions=1), True),
        (ReadView(txn=4), False),
        (ReadView(time_start=1), False),
        (ReadView(time_end=2), False),
        (ReadView(columns=ColumnSet.of(["g"])), False),
    ],
)
def test_a_source_known_to_be_clean_is_passed_on_untouched(view: ReadView, passes: bool) -> None:
    source = Source(block_of(CLEAN), facts=Facts(txn_max=5, erasures=False, versions_max=1))
    blocks = merge_resolve([source], view).gather()
    assert cells_of(blocks) == expected([Reference(CLEAN)], view)
    if passes:
        assert blocks[0].descriptor.tolist() == source.block.descriptor.tolist()


@pytest.mark.parametrize(
    "facts",
    [
        Facts(txn_max=5, erasures=True, versions_max=1),
        Facts(txn_max=5, erasures=False, versions_max=2),
    ],
)
def test_a_source_that_may_hide_something_is_looked_at(facts: Facts) -> None:
    cells = [put(b"r", b"q", 2, 5), put(b"r", b"q", 1, 5)]
    source = Source(block_of(cells), facts=facts)
    blocks = merge_resolve([source], ReadView(versions=1)).gather()
    assert cells_of(blocks) == cells[:1]


def test_clean_rows_beside_rows_that_several_sources_have() -> None:
    facts = Facts(txn_max=5, erasures=False, versions_max=1)
    newer = [put(b"r3", b"q", 2, 5), put(b"r7", b"p", 1, 5)]
    sources = [Source(block_of(cells), facts=facts) for cells in (CLEAN, newer)]
    blocks = merge_resolve(sources, ReadView(versions=1)).gather()
    assert cells_of(blocks) == oracle.read([Reference(CLEAN), Reference(newer)], versions=1)


def test_a_txn_carried_by_the_reference_replaces_the_stored_one() -> None:
    source = Source(block_of([put(b"r", b"q", 1, 0)]), ALL_COLUMNS, txn=7)
    assert cells_of(merge_resolve([source], ReadView(txn=6)).gather()) == []
    (cell,) = cells_of(merge_resolve([source], ReadView(txn=7)).gather())
    assert cell.txn == 7
