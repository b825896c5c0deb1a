"""Which memory fragments to merge: tiers of sizes, each some times larger than the one below.

A read looks into every fragment, so there should be few; a merge copies all it merges, so there
should be few of those as well. When a tier holds ``fan_in`` fragments, they become one of the next
tier, together with everything smaller. A cell is then copied once for each tier, and a read looks
into at most ``fan_in`` fragments of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TierLimits:
    """How fragments are tiered. Sizes in bytes."""

    fan_in: int = 8
    first_tier_bytes: int = 64 * 1024
    """Everything below is the lowest tier: merging it costs next to nothing."""
    merged_bytes_max: int = 64 * 1024 * 1024
    """A merge makes nothing larger: a flush is due by then, and merges all by itself."""

    def tier(self, size_bytes: int) -> int:
        """The tier of a fragment of that size."""
        tier = 0
        while size_bytes >= self.first_tier_bytes * self.fan_in**tier:
            tier += 1
        return tier


def choose_merge(sizes_bytes: Sequence[int], limits: TierLimits) -> list[int]:
    """Which fragments to merge now, by their places; none when no tier is full."""
    tiers = [limits.tier(size) for size in sizes_bytes]
    for tier in sorted(set(tiers)):
        chosen = [place for place, other in enumerate(tiers) if other <= tier]
        if sum(other == tier for other in tiers) >= limits.fan_in:
            return _within(chosen, sizes_bytes, limits.merged_bytes_max)
    return []


def _within(places: Sequence[int], sizes_bytes: Sequence[int], bytes_max: int) -> list[int]:
    """As many of the places, smallest first, as fit together into a size; at least two, or none."""
    chosen: list[int] = []
    total = 0
    for place in sorted(places, key=lambda place: sizes_bytes[place]):
        total += sizes_bytes[place]
        if total > bytes_max:
            break
        chosen.append(place)
    return sorted(chosen) if len(chosen) > 1 else []
