"""Truncations that readers know of before the configs say so.

A truncation is shown in one change of configs, and how far back its rows can be read is saved in
the next: that is known only when the cut is shown. In between it is noted here, row range by row
range. Readers look here first and at the configs after, and a note goes only when its configs are
shown; so who finds nothing in either has a view from before the cut.

A config has one floor for all rows of its tablet. So a truncation of some rows ends the history of
every tablet that they are in, and of no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stele.model.ranges import RowRange


class Truncation(NamedTuple):
    """Rows that cannot be read below a txn any more."""

    rows: RowRange
    floor: int


class Truncations:
    """Those of one table. The engine's lock guards changes; readers take no lock."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: tuple[Truncation, ...] = ()

    def note(self, rows: RowRange, floor: int) -> None:
        """The rows are cut from now on."""
        self._noted = (*self._noted, Truncation(rows, floor))

    def saved(self, rows: RowRange, floor: int) -> None:
        """The configs that are shown say of these rows what was noted, or more."""
        self._noted = tuple(
            one for one in self._noted if not rows.covers(one.rows) or one.floor > floor
        )

    @property
    def floor_max(self) -> int:
        """The highest floor of any rows; 0 if nothing is noted."""
        return max((one.floor for one in self._noted), default=0)

    def floor_of(self, ranges: Iterable[RowRange]) -> int:
        """The highest floor of some rows."""
        noted = self._noted
        return max(
            (one.floor for rows in ranges for one in noted if one.rows.overlaps(rows)), default=0
        )
