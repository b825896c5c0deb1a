"""A small world of rows and families in which regions can be checked point by point."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.storage.regions import Region

ROWS = [b"", b"a", b"a\x00", b"b", b"c", b"\xff", b"\xff\xff"]
FAMILIES = ["a", "b", "c", "other"]
POINTS = list(itertools.product(ROWS, FAMILIES))


@st.composite
def row_range(draw: st.DrawFn) -> RowRange:
    start = draw(st.sampled_from(ROWS))
    ends = [None, *(row for row in ROWS if row > start)]
    return RowRange(start, draw(st.sampled_from(ends)))


NAMES = st.sets(st.sampled_from(FAMILIES[:3]))
COLUMNS = st.one_of(
    NAMES.filter(bool).map(ColumnSet.of), NAMES.map(ColumnSet.all_but)
)  # never empty, but "* but a b c" has only "other"
REGION = st.builds(Region, row_range(), COLUMNS)


def points(region: Region) -> set[tuple[bytes, str]]:
    return {(row, family) for row, family in POINTS if region.contains(row, family)}
