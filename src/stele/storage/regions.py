"""Regions: a row range crossed with a column set, and their small algebra.

References and flush marks both speak about a region of a table. Splitting, joining and regrouping
tablets cut and combine them, and must neither lose a cell nor name one twice; that is all done
here, on rectangles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import EVERYTHING, RowRange


@dataclass(frozen=True, slots=True)
class Region:
    """Rows times columns; never empty."""

    rows: RowRange = EVERYTHING
    columns: ColumnSet = ALL_COLUMNS

    def __post_init__(self) -> None:
        assert not self.columns.is_empty, "a region without columns"

    def contains(self, row: bytes, family: str) -> bool:
        return family in self.columns and self.rows.contains(row)

    def covers(self, other: Region) -> bool:
        return self.rows.covers(other.rows) and self.columns.covers(other.columns)

    def intersect(self, other: Region) -> Region | None:
        """What is in both; None if that is nothing."""
        rows = self.rows.intersect(other.rows)
        columns = self.columns.intersect(other.columns)
        return None if rows is None or columns.is_empty else Region(rows, columns)

    def minus(self, other: Region) -> tuple[Region, ...]:
        """What is here and not in ``other``, as up to three regions that do not overlap."""
        both = self.intersect(other)
        if both is None:
            return (self,)
        left: list[Region] = []
        if self.rows.start < both.rows.start:
            left.append(Region(RowRange(self.rows.start, both.rows.start), self.columns))
        beside = self.columns.minus(both.columns)
        if not beside.is_empty:
            left.append(Region(both.rows, beside))
        if both.rows.end is not None and both.rows.end != self.rows.end:
            left.append(Region(RowRange(both.rows.end, self.rows.end), self.columns))
        return tuple(left)


EVERYWHERE = Region()
NO_COLUMNS = ColumnSet.of(())


def subtract(region: Region, others: Iterable[Region]) -> tuple[Region, ...]:
    """What of a region is in none of the others."""
    left: tuple[Region, ...] = (region,)
    for other in others:
        left = tuple(part for piece in left for part in piece.minus(other))
    return left


def unite(regions: Iterable[Region]) -> tuple[Region, ...]:
    """The same area in its one normal form: regions in row order, no two of which share a row."""
    everything = tuple(regions)
    starts = [b"", *borders(region.rows for region in everything)]
    ends = [*starts[1:], None]
    united: list[Region] = []
    for start, end in zip(starts, ends, strict=True):
        columns = NO_COLUMNS
        for region in everything:
            if region.rows.contains(start):
                columns = columns.union(region.columns)
        if columns.is_empty:
            continue
        last = united[-1] if united else None
        if last is not None and last.rows.end == start and last.columns == columns:
            united[-1] = Region(RowRange(last.rows.start, end), columns)
        else:
            united.append(Region(RowRange(start, end), columns))
    return tuple(united)


def borders(ranges: Iterable[RowRange]) -> list[bytes]:
    """The rows at which any of the ranges begins or ends, in order; not the table's own ends."""
    found: set[bytes] = set()
    for rows in ranges:
        found.add(rows.start)
        if rows.end is not None:
            found.add(rows.end)
    return sorted(found - {b""})
