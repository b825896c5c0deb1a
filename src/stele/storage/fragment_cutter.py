"""Cuts a stream of sorted blocks into row groups that end where rows end.

A point read decodes one row group, and a merge never waits for the rest of a row, as long as no
row is in two groups. A group ends at the last row that still fits into the wanted number of cells
and bytes. A row that is larger than that by itself gets a group of its own, up to twice the size;
only beyond it is the row cut, and the next group is marked as continuing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stele.kernels.block import Block
from stele.kernels.fragment_survey import cells_within, first_row_start, last_row_start, raw_bytes

OVERSIZE_FACTOR = 2
"""How many times the wanted size a group may have so that a row need not be cut."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The cells of a row group, in one or more parts."""

    parts: tuple[Block, ...]
    continues: bool
    """Whether its first cell belongs to the last row of the group before."""
    continued: bool = False
    """Whether its last row goes on in the next group."""


class RowGroupCutter:
    """Takes blocks, gives row groups. Keeps at most two groups' worth of cells waiting."""

    def __init__(self, cells: int, size: int):
        self._cells_wanted = cells
        self._bytes_wanted = size
        self._parts: list[Block] = []
        self._count = 0
        self._continues = False

    def add(self, block: Block) -> Iterator[RowGroup]:
        """Take the next block; gives the row groups that are now complete."""
        if block.count:
            self._parts.append(block)
            self._count += block.count
        return self._cut_all(final=False)

    def finish(self) -> Iterator[RowGroup]:
        """No block follows for now: give the rest. What is added later begins with a new row."""
        return self._cut_all(final=True)

    def _cut_all(self, *, final: bool) -> Iterator[RowGroup]:
        while self._count:
            cut = self._find_cut(final=final)
            if cut is None:
                return
            at, between_rows = cut
            group = RowGroup(self._take(at), self._continues, continued=not between_rows)
            self._continues = not between_rows
            yield group

    def _find_cut(self, *, final: bool) -> tuple[int, bool] | None:
        """Where the next group ends and whether a row ends there; None if that is not known yet."""
        wanted = self._within(self._cells_wanted, self._bytes_wanted)
        if wanted == self._count:
            return (self._count, True) if final else None
        at = self._row_start_below(wanted)
        if at:
            return at, True
        most = self._within(
            OVERSIZE_FACTOR * self._cells_wanted, OVERSIZE_FACTOR * self._bytes_wanted
        )
        at = self._row_start_above(wanted, most)
        if at:
            return at, True
        if most == self._count:
            return (self._count, True) if final else None
        return wanted, False

    def _within(self, cells: int, size: int) -> int:
        """How many of the waiting cells fit into a group, at least one."""
        fitting = 0
        for part in self._parts:
            here = cells_within(part.descriptor, size)
            fitting += here
            if here < part.count or fitting >= cells:
                break
            size -= raw_bytes(part.descriptor)
        return max(1, min(fitting, cells))

    def _row_start_below(self, high: int) -> int:
        """The last cell in ``1 … high`` that begins a row; 0 if there is none."""
        ends = self._count
        for number in reversed(range(len(self._parts))):
            part = self._parts[number]
            start = ends - part.count
            ends = start
            if start > high:
                continue
            last = min(high - start, part.count - 1)
            inside = last_row_start(part.descriptor, 1, last) if last >= 1 else -1
            if inside > 0:
                return start + inside
            if start and self._begins_row(number):
                return start
        return 0

    def _row_start_above(self, low: int, high: int) -> int:
        """The first cell in ``low + 1 … high`` that begins a row; 0 if there is none."""
        start = 0
        for number, part in enumerate(self._parts):
            if low < start <= high and self._begins_row(number):
                return start
            first, last = max(1, low + 1 - start), min(high - start, part.count - 1)
            inside = first_row_start(part.descriptor, first, last) if first <= last else -1
            if inside > 0:
                return start + inside
            start += part.count
        return 0

    def _begins_row(self, number: int) -> bool:
        """Whether the first cell of a part belongs to another row than the last one before it."""
        before = self._parts[number - 1]
        return before.row(before.count - 1) != self._parts[number].row(0)

    def _take(self, count: int) -> tuple[Block, ...]:
        """Remove the first ``count`` of the waiting cells."""
        taken: list[Block] = []
        self._count -= count
        while count:
            part = self._parts[0]
            if part.count <= count:
                taken.append(self._parts.pop(0))
                count -= part.count
            else:
                taken.append(part.slice(0, count))
                self._parts[0] = part.slice(count, part.count)
                count = 0
        return tuple(taken)
