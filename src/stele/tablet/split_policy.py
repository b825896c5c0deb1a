"""When a tablet splits, where, and when two neighbours join.

A tablet splits at an existing row key near the middle of its bytes; both sides get rows. The
key comes from the fragments' indexes, so choosing costs no read of data. Two neighbours join
when together they are far below the size that splits one: the distance between the two bounds is
what keeps a tablet from splitting and joining in turns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stele.model.ranges import RowRange


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Bytes on disk."""

    split_bytes: int = 512 << 20
    join_ratio: float = 0.25
    """Neighbours join when their sum is below this part of ``split_bytes``."""
    side_ratio_min: float = 0.1
    """A split that leaves a side less than this is not worth the tablet."""


@dataclass(frozen=True, slots=True)
class RowSample:
    """An existing row key, and the bytes from it to the next sample of the same fragment."""

    row: bytes
    size_bytes: int


def wants_split(size_bytes: int, limits: SizeLimits) -> bool:
    return size_bytes > limits.split_bytes


def choose_split_row(
    rows: RowRange, samples: Iterable[RowSample], limits: SizeLimits
) -> bytes | None:
    """The existing row nearest to the middle by bytes, or ``None`` when no row divides the tablet.

    The smallest row seen is never chosen: it would leave the lower side empty.
    """
    inside = sorted((s for s in samples if rows.contains(s.row)), key=lambda s: s.row)
    if not inside:
        return None
    total = sum(sample.size_bytes for sample in inside)
    smallest = inside[0].row
    best: tuple[int, bytes] | None = None
    below = 0
    for sample in inside:
        uneven = abs(2 * below - total)
        if sample.row > smallest and (best is None or uneven < best[0]):
            best = (uneven, sample.row)
        below += sample.size_bytes
    if best is None or best[0] > total * (1 - 2 * limits.side_ratio_min):
        return None
    return best[1]


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """What is known of a tablet that might join its neighbour."""

    tablet: str
    rows: RowRange
    size_bytes: int
    protected: bool
    """Made by a split the user asked for; such borders stay."""


def choose_join(tablets: Sequence[JoinFacts], limits: SizeLimits) -> tuple[str, str] | None:
    """The smallest pair of touching neighbours that should become one, lower tablet first.

    A border is protected by the tablet above it: that one's lower end is the key the user chose.
    """
    best: tuple[int, str, str] | None = None
    for lower, upper in itertools.pairwise(tablets):
        if lower.rows.end != upper.rows.start or upper.protected:
            continue
        together = lower.size_bytes + upper.size_bytes
        if together >= limits.split_bytes * limits.join_ratio:
            continue
        if best is None or together < best[0]:
            best = (together, lower.tablet, upper.tablet)
    return None if best is None else (best[1], best[2])
