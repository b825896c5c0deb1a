"""Filters against testing one cell after the other."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.filter import filter_cells, regex_mask
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.selection import Selection
from stele.model import filters
from stele.model.cells import Cell
from stele.model.columns import EVERY_COLUMN, ColumnSelection, FamilySelection
from stele.model.filters import Filter, FilterField
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from tests.oracles import cells as oracle
from tests.oracles import reads, strategies
from tests.oracles.blocks import block_of, cells_of, sources_of
from tests.oracles.cells import Reference
from tests.oracles.strategies import World

REGEXES = ("a", "^$", r"\xff$", "q", "[0-9]+", "^.$", "x|v")


def byte_ranges(pool: list[bytes]) -> st.SearchStrategy[tuple[RowRange, ...]]:
    """Ranges whose ends are strings that occur, or stand beside ones that do."""
    edges = st.sampled_from([*pool, *(text + b"\x00" for text in pool), b"", b"m", b"\xff" * 12])
    interval = st.tuples(edges, edges | st.none()).map(
        lambda pair: RowRange(pair[0], pair[1] if pair[1] is None or pair[1] > pair[0] else None)
    )
    prefixed = st.sampled_from(pool).map(lambda text: RowRange.prefix(text[:2]))
    exact = st.sampled_from(pool).map(RowRange.row)
    return st.lists(interval | prefixed | exact, max_size=4).map(tuple)


@st.composite
def specs(draw: st.DrawFn, world: World) -> CellSpec:
    pools: dict[FilterField, list[bytes]] = {
        "row": list(world.rows),
        "qualifier": list(world.qualifiers),
        "value": list(world.values),
    }
    some = []
    for field in draw(st.lists(st.sampled_from(sorted(pools)), max_size=3)):
        if draw(st.integers(0, 3)) == 0:
            some.append(Filter(field, regex=draw(st.sampled_from(REGEXES))))
        else:
            some.append(Filter(field, ranges=draw(byte_ranges(pools[field]))))
    columns = EVERY_COLUMN
    if draw(st.booleans()):
        families = draw(st.lists(st.sampled_from([*world.families, "another"]), max_size=3))
        ranges = [draw(byte_ranges(pools["qualifier"])) or (RowRange(),) for _ in families]
        columns = ColumnSelection(tuple(map(FamilySelection, families, ranges)))
    per_row = draw(st.none() | st.integers(1, 3))
    return CellSpec(columns=columns, filters=tuple(some), cells_per_row=per_row)


def resolved(references: list[Reference]) -> Selection:
    return merge_resolve(sources_of(references), ReadView())


@settings(max_examples=150)
@given(st.data())
def test_filters_leave_what_holds(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    visible = oracle.read(references)
    for _ in range(2):
        spec = data.draw(specs(world))
        selection, rows = filter_cells(resolved(references), spec)
        expected = reads.filtered(visible, spec)
        assert cells_of(selection.gather()) == expected
        assert rows == len(reads.rows_of(expected))


@settings(max_examples=100)
@given(st.data())
def test_a_limit_ends_with_a_whole_row(data: st.DataObject) -> None:
    world = data.draw(strategies.worlds)
    references = data.draw(strategies.references(world))
    spec = data.draw(specs(world))
    for limit in (0, 1, 2):
        selection, rows = filter_cells(resolved(references), spec, limit)
        expected = reads.rows_of(reads.filtered(oracle.read(references), spec))[:limit]
        assert cells_of(selection.gather()) == [cell for row in expected for cell in row]
        assert rows == len(expected)


def cell(row: bytes, qualifier: bytes, value: bytes) -> Cell:
    return Cell(row, "f", qualifier, 1, value, txn=1)


CELLS = [cell(b"%03d" % n, b"q%d" % q, b"%d" % (n * q)) for n in range(50) for q in range(4)]


@pytest.mark.parametrize(
    "one",
    [
        filters.equal("value", b"21", b"4"),
        filters.prefix("row", b"01", b"04"),
        filters.between("qualifier", b"q1", b"q3"),
        filters.between("value", b"9"),
        filters.regex("row", "[05]$"),
        filters.equal("value"),
        filters.equal("row", *(b"%03d" % n for n in range(0, 50, 7))),
    ],
)
def test_one_filter_of_each_kind(one: Filter) -> None:
    spec = CellSpec(filters=(one,))
    selection, _ = filter_cells(resolved([Reference(CELLS)]), spec)
    assert cells_of(selection.gather()) == [c for c in CELLS if reads.holds(one, c)]


def test_what_passes_whole_is_not_cut_into_pieces() -> None:
    selection, rows = filter_cells(resolved([Reference(CELLS)]), CellSpec())
    assert selection.run_count == 1
    assert rows == 50


def test_a_regex_is_judged_like_the_filter_that_defines_it() -> None:
    column = pa.array([b"a", b"b", b"", b"\xff", b"ab"] * 3, pa.binary()).slice(1, 12)
    for pattern in REGEXES:
        judged = Filter("value", regex=pattern).mask(column)
        assert regex_mask(column, pattern).tolist() == judged.to_pylist()


def test_nothing_stays_nothing() -> None:
    selection, rows = filter_cells(resolved([]), CellSpec(filters=(filters.regex("row", "a"),)))
    assert selection.gather() == []
    assert rows == 0
    assert block_of([]).count == 0
