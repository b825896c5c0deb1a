"""Tiers: few runs to read, few copies to make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.storage.memory_policy import TierLimits, choose_merge

LIMITS = TierLimits(fan_in=4, first_tier_bytes=100, merged_bytes_max=100_000)


@pytest.mark.parametrize(
    ("size", "tier"), [(0, 0), (99, 0), (100, 1), (399, 1), (400, 2), (1_599, 2), (1_600, 3)]
)
def test_tiers_grow_by_the_fan_in(size: int, tier: int) -> None:
    assert LIMITS.tier(size) == tier


def test_a_full_tier_is_merged_with_everything_smaller() -> None:
    assert choose_merge([500, 600, 50, 700, 800], LIMITS) == [0, 1, 2, 3, 4]


def test_nothing_is_merged_while_no_tier_is_full() -> None:
    assert choose_merge([], LIMITS) == []
    assert choose_merge([10, 10, 10, 500, 500, 500], LIMITS) == []


def test_the_lowest_full_tier_goes_first() -> None:
    sizes = [10] * 4 + [500] * 4
    assert choose_merge(sizes, LIMITS) == [0, 1, 2, 3]


def test_nothing_is_made_larger_than_a_flush() -> None:
    assert choose_merge([40_000] * 4, LIMITS) == [0, 1]
    assert choose_merge([60_000] * 4, LIMITS) == []


@given(st.lists(st.integers(1, 5_000), max_size=200))
def test_a_cell_is_copied_once_for_each_tier(sizes: list[int]) -> None:
    runs: list[tuple[int, int]] = []
    """Size of each run, and how often its oldest byte was copied."""
    for size in sizes:
        runs.append((size, 0))
        while chosen := choose_merge([run[0] for run in runs], LIMITS):
            merged = [runs[place] for place in chosen]
            total = sum(run[0] for run in merged)
            runs = [run for place, run in enumerate(runs) if place not in chosen]
            runs.append((total, 1 + max(run[1] for run in merged)))
    # A run too large to be merged with others of its size stays as it is.
    largest_tier = LIMITS.tier(LIMITS.merged_bytes_max)
    small = [run for run in runs if run[0] * LIMITS.fan_in < LIMITS.merged_bytes_max]
    assert len(small) <= LIMITS.fan_in * largest_tier
    assert all(copies <= largest_tier * 2 for _size, copies in runs)
