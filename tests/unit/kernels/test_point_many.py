"""Many rows at once against reading them one by one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.point_index import PointIndex
from stele.kernels.point_many import ManyRows, read_many
from stele.kernels.resolve import ReadView
from stele.model.cells import Cell
from tests.oracles import cells as oracle
from tests.oracles import strategies
from tests.oracles.blocks import cells_of
from tests.oracles.cells import Reference
from tests.oracles.fragments import draw_index, fragment_of


@settings(max_examples=200)
@given(st.data())
def test_rows_come_in_the_order_asked_for(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 4, restricted=data.draw(st.booleans())))
    index, _ = draw_index(data, references)
    keys = data.draw(st.lists(st.sampled_from([*world.rows, b"no such row"]), max_size=12))
    view = ReadView(txn=data.draw(st.sampled_from(world.txns)), versions=1)
    visible = oracle.read(references, txn=view.txn, versions=1)
    rows = [[cell for cell in visible if cell.row == key] for key in keys]
    for several in (keys, pa.array([b"x", *keys], pa.binary()).slice(1)):
        many = read_many(index, several, view)
        assert cells_of(many.selection.gather()) == [cell for row in rows for cell in row]
        assert many.cells.tolist() == [len(row) for row in rows]


CELLS = [Cell(b"%04d" % number, "f", b"q", 1, b"v", txn=1) for number in range(1_000)]


def test_each_block_is_loaded_once() -> None:
    fragment, table = fragment_of(Reference(CELLS), range(100, 1_000, 100))
    keys = [b"%04d" % number for number in range(950, 0, -7)]
    many = read_many(PointIndex([fragment]), keys, ReadView())
    assert [cell.row for cell in cells_of(many.selection.gather())] == keys
    assert sorted(table.loads) == list(range(10))


def test_the_same_large_row_many_times() -> None:
    cells = [Cell(b"r", "f", b"%04d" % number, 1, b"v", txn=1) for number in range(100)]
    fragment, _ = fragment_of(Reference(cells), range(10, 100, 10))
    many = read_many(PointIndex([fragment]), [b"r"] * 5, ReadView())
    assert cells_of(many.selection.gather()) == cells * 5
    assert many.cells.tolist() == [100] * 5


def test_no_keys_and_no_fragments() -> None:
    fragment, table = fragment_of(Reference(CELLS), [])
    assert read_many(PointIndex([fragment]), [], ReadView()).selection.gather() == []
    assert read_many(PointIndex([]), [b"r"], ReadView()).cells.tolist() == [0]
    assert not table.loads


@settings(max_examples=150)
@given(st.data())
def test_a_bound_on_what_is_loaded_cuts_the_keys(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world, 4, restricted=data.draw(st.booleans())))
    index, tables = draw_index(data, references)
    keys = sorted(data.draw(st.sets(st.sampled_from([*world.rows, b"no such row"]))))
    visible = oracle.read(references, versions=1)
    bound, start = data.draw(st.integers(0, 2_000)), 0

    def read_cold(several: list[bytes]) -> tuple[ManyRows, int]:
        """What is read, and how many bytes were loaded for it."""
        for table in tables:
            for group in range(len(table.stored)):
                table.drop(group)
            table.loads.clear()
        many = read_many(index, several, ReadView(versions=1), bound)
        return many, sum(table.sizes[group] for table in tables for group in table.loads)

    most = max((read_cold([key])[1] for key in keys), default=0)
    while start < len(keys):
        many, loaded = read_cold(keys[start:])
        assert 1 <= many.keys == len(many.cells)
        assert loaded <= max(bound, most)
        read = keys[start : start + many.keys]
        expected = [cell for cell in visible if cell.row in read]
        assert cells_of(many.selection.gather(copies=True)) == expected
        start += many.keys


def test_what_is_in_memory_already_does_not_count() -> None:
    fragment, table = fragment_of(Reference(CELLS), range(100, 1_000, 100))
    keys = [b"%04d" % number for number in range(0, 1_000, 10)]
    first = read_many(PointIndex([fragment]), keys, ReadView(), load_bytes_max=1)
    assert first.keys == 10, "those of the first block"
    for group in range(10):
        table.load(group)
    assert read_many(PointIndex([fragment]), keys, ReadView(), load_bytes_max=1).keys == 100
