"""From rows to tablets: an immutable, sorted map, keyed by each tablet's exclusive end.

A server holds some of a table's tablets, so there may be gaps; there are never overlaps. Every
change makes a new map; readers keep theirs.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from stele.model.ranges import RowRange


class HasRows(Protocol):
    """Anything that stands for a range of rows."""

    @property
    def rows(self) -> RowRange: ...


T = TypeVar("T", bound=HasRows)


class RangeMap(Generic[T]):
    """Tablets of one table in row order."""

    __slots__ = ("_starts", "_tablets")

    def __init__(self, tablets: Iterable[T] = ()):
        ordered = sorted(tablets, key=lambda tablet: tablet.rows.start)
        for lower, upper in itertools.pairwise(ordered):
            apart = not lower.rows.overlaps(upper.rows)
            assert apart, f"tablets overlap: {lower.rows} and {upper.rows}"
        self._tablets = tuple(ordered)
        self._starts = [tablet.rows.start for tablet in ordered]

    def find(self, row: bytes) -> T | None:
        """The tablet that holds ``row``, if there is one here."""
        position = bisect_right(self._starts, row) - 1
        if position < 0:
            return None
        tablet = self._tablets[position]
        end = tablet.rows.end
        return tablet if end is None or row < end else None

    def overlapping(self, rows: RowRange) -> tuple[T, ...]:
        """All tablets that hold any row of ``rows``, in order."""
        first = max(bisect_right(self._starts, rows.start) - 1, 0)
        found = []
        for tablet in self._tablets[first:]:
            if rows.end is not None and tablet.rows.start >= rows.end:
                break
            if tablet.rows.overlaps(rows):
                found.append(tablet)
        return tuple(found)

    def neighbours(self, tablet: T) -> tuple[T | None, T | None]:
        """The tablets that touch this one from below and from above, if they are here."""
        position = bisect_right(self._starts, tablet.rows.start) - 1
        assert self._tablets[position].rows == tablet.rows
        below = self._tablets[position - 1] if position else None
        above = self._tablets[position + 1] if position + 1 < len(self._tablets) else None
        return (
            below if below is not None and below.rows.end == tablet.rows.start else None,
            above if above is not None and above.rows.start == tablet.rows.end else None,
        )

    def replace(self, removed: Iterable[T], added: Iterable[T]) -> RangeMap[T]:
        """A new map with some tablets exchanged; ``removed`` are recognised by their ranges."""
        gone = {tablet.rows for tablet in removed}
        kept = [tablet for tablet in self._tablets if tablet.rows not in gone]
        assert len(kept) == len(self._tablets) - len(gone), "a tablet to replace is not in the map"
        return RangeMap([*kept, *added])

    def gaps(self, rows: RowRange) -> tuple[RowRange, ...]:
        """The parts of ``rows`` that no tablet here holds."""
        holes = []
        position = rows.start
        for tablet in self.overlapping(rows):
            if position < tablet.rows.start:
                holes.append(RowRange(position, tablet.rows.start))
            if tablet.rows.end is None:
                return tuple(holes)
            position = tablet.rows.end
        if rows.end is None or position < rows.end:
            holes.append(RowRange(position, rows.end))
        return tuple(holes)

    def __iter__(self) -> Iterator[T]:
        return iter(self._tablets)

    def __len__(self) -> int:
        return len(self._tablets)
