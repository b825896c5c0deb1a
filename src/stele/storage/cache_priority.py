"""Which fragments the block cache keeps, and in which order it is filled (T75, T76).

Groups marked in-memory should be served without the disk. A file may hold columns of several
groups, so files have one of four priorities:

    1   all its columns are in one in-memory group
    2   all its columns are in in-memory groups, several of them
    3   some of its columns are in an in-memory group
    4   none is

Blocks of 1 to 3 are loaded ahead, in this order, and evicted last, in the opposite one; blocks of
4 are loaded when they are read. What does not fit is read when needed, like any other block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.column_set import ColumnSet


class Priority(IntEnum):
    """Lower numbers are kept longer."""

    ONE_GROUP = 1
    SEVERAL_GROUPS = 2
    SOME_COLUMNS = 3
    ON_DEMAND = 4


IN_MEMORY = (Priority.ONE_GROUP, Priority.SEVERAL_GROUPS, Priority.SOME_COLUMNS)
"""The priorities that are loaded ahead."""


def cache_priority(families: Iterable[str], in_memory: Sequence[ColumnSet]) -> Priority:
    """The priority of a file of which these families can be seen, given the in-memory groups.

    A file of nothing but row erasures is read with every group, so with in-memory ones too.
    """
    seen = [family for family in families if family != ROW_ERASURE_FAMILY]
    if not in_memory:
        return Priority.ON_DEMAND
    if not seen:
        return Priority.SOME_COLUMNS
    if any(all(family in group for family in seen) for group in in_memory):
        return Priority.ONE_GROUP
    kept = [any(family in group for group in in_memory) for family in seen]
    if all(kept):
        return Priority.SEVERAL_GROUPS
    return Priority.SOME_COLUMNS if any(kept) else Priority.ON_DEMAND


@dataclass(frozen=True, slots=True)
class PreloadCandidate:
    """Row groups of a file that a tablet would like to have in memory."""

    name: str
    priority: Priority
    groups: range
    block_bytes: Sequence[int]
    """Memory of each of ``groups``, once decoded."""


@dataclass(frozen=True, slots=True)
class PreloadStep:
    """Row groups to load, in order."""

    name: str
    groups: range


def plan_preload(candidates: Iterable[PreloadCandidate], room_bytes: int) -> list[PreloadStep]:
    """What to load ahead: by priority, then in the order given, as far as it fits.

    A file that does not fit as a whole is loaded from its first row group on; nothing of a lower
    priority is loaded once something of a higher one did not fit.
    """
    steps: list[PreloadStep] = []
    wanted = [candidate for candidate in candidates if candidate.priority in IN_MEMORY]
    for candidate in sorted(wanted, key=lambda candidate: candidate.priority):
        fitting = 0
        for size in candidate.block_bytes:
            if size > room_bytes:
                break
            room_bytes -= size
            fitting += 1
        if fitting:
            steps.append(PreloadStep(candidate.name, candidate.groups[:fitting]))
        if fitting < len(candidate.groups):
            break
    return steps
