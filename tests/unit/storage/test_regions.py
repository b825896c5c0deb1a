"""Regions, point by point."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.storage.regions import EVERYWHERE, Region, borders, subtract, unite
from tests.unit.storage.region_cases import POINTS, REGION, points


@given(REGION, REGION)
def test_intersect_and_minus(a: Region, b: Region) -> None:
    both = a.intersect(b)
    assert (points(both) if both else set()) == points(a) & points(b)
    left = a.minus(b)
    assert set().union(*(points(part) for part in left)) == points(a) - points(b)
    assert all(x.intersect(y) is None for x, y in itertools.combinations(left, 2))
    if a.covers(b):
        assert points(b) <= points(a)


@given(REGION, st.lists(REGION, max_size=5))
def test_subtract(region: Region, others: list[Region]) -> None:
    expected = points(region).difference(*(points(other) for other in others))
    assert set().union(*(points(part) for part in subtract(region, others))) == expected


@given(st.lists(REGION, max_size=6))
def test_uniting_keeps_the_area_and_never_overlaps(regions: list[Region]) -> None:
    united = unite(regions)
    assert set().union(*map(points, united)) == set().union(*map(points, regions))
    for a, b in itertools.pairwise(united):
        assert a.rows.end is not None
        assert a.rows.end <= b.rows.start, "no row is in two regions"
        assert a.columns != b.columns or a.rows.end < b.rows.start
    assert unite(reversed(regions)) == united
    assert unite(united) == united


@given(st.lists(REGION, max_size=6))
def test_borders_are_where_anything_changes(regions: list[Region]) -> None:
    found = borders(region.rows for region in regions)
    assert found == sorted(set(found))
    assert b"" not in found
    for row, family in POINTS:
        start = max((border for border in found if border <= row), default=b"")
        for region in regions:
            assert region.contains(row, family) == region.contains(start, family)


def test_two_halves_are_the_whole() -> None:
    lower, upper = Region(RowRange(b"", b"m")), Region(RowRange(b"m"))
    assert unite([lower, upper]) == unite([upper, lower]) == (EVERYWHERE,)
    left, right = Region(columns=ColumnSet.of("a")), Region(columns=ColumnSet.all_but("a"))
    assert unite([left, right]) == (EVERYWHERE,)


def test_quarters_are_the_whole() -> None:
    quarters = [
        Region(rows, columns)
        for rows in (RowRange(b"", b"m"), RowRange(b"m"))
        for columns in (ColumnSet.of("a"), ColumnSet.all_but("a"))
    ]
    for order in itertools.permutations(quarters):
        assert unite(order) == (EVERYWHERE,)


def test_a_gap_stays_a_gap() -> None:
    parts = [Region(RowRange(b"", b"a")), Region(RowRange(b"b", b"c"))]
    assert len(unite(parts)) == 2
