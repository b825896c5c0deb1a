"""Cache priorities and preloading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.model.column_set import ColumnSet
from stele.storage.cache_priority import (
    PreloadCandidate,
    PreloadStep,
    Priority,
    cache_priority,
    plan_preload,
)

A, B, C = ColumnSet.of("a"), ColumnSet.of("b"), ColumnSet.of("c")
AB = ColumnSet.of(["a", "b"])
REST = ColumnSet.all_but(["a", "b"])


@pytest.mark.parametrize(
    ("families", "in_memory", "priority"),
    [
        (["a"], [A], 1),
        (["a", "b"], [AB], 1),
        (["a", "b"], [C, AB], 1),
        (["", "a"], [A], 1),
        (["x", "y"], [REST], 1),
        (["a", "b"], [A, B], 2),
        (["a", "x"], [A, REST], 2),
        (["a", "b"], [A], 3),
        (["a", "b", "c"], [A, B], 3),
        (["a", "x"], [REST], 3),
        ([""], [A], 3),
        (["c"], [A, B], 4),
        (["a"], [], 4),
        ([""], [], 4),
    ],
)
def test_the_four_priorities(
    families: list[str], in_memory: list[ColumnSet], priority: int
) -> None:
    assert cache_priority(families, in_memory) == Priority(priority)


def candidate(name: str, priority: int, *sizes: int, first: int = 0) -> PreloadCandidate:
    groups = range(first, first + len(sizes))
    return PreloadCandidate(name, Priority(priority), groups, sizes)


def test_everything_that_fits_is_loaded_by_priority() -> None:
    candidates = [
        candidate("three", 3, 10, 10),
        candidate("one", 1, 10),
        candidate("four", 4, 1),
        candidate("two", 2, 10, 10, 10, first=5),
        candidate("also one", 1, 10),
    ]
    assert plan_preload(candidates, 1_000) == [
        PreloadStep("one", range(1)),
        PreloadStep("also one", range(1)),
        PreloadStep("two", range(5, 8)),
        PreloadStep("three", range(2)),
    ]


def test_what_does_not_fit_ends_the_plan() -> None:
    candidates = [candidate("a", 1, 10, 10, 10), candidate("b", 2, 1)]
    assert plan_preload(candidates, 25) == [PreloadStep("a", range(2))]
    assert plan_preload(candidates, 5) == []
    assert plan_preload(candidates, 30) == [PreloadStep("a", range(3))]
    assert plan_preload([], 30) == []


CANDIDATES = st.lists(
    st.builds(
        lambda priority, sizes: candidate("f", priority, *sizes),
        st.integers(1, 4),
        st.lists(st.integers(1, 20), max_size=5),
    ),
    max_size=8,
)


@given(CANDIDATES, st.integers(0, 200))
def test_a_plan_never_exceeds_the_room(candidates: list[PreloadCandidate], room: int) -> None:
    numbered = [
        PreloadCandidate(str(at), one.priority, one.groups, one.block_bytes)
        for at, one in enumerate(candidates)
    ]
    by_name = {one.name: one for one in numbered}
    plan = plan_preload(numbered, room)
    size = sum(sum(by_name[step.name].block_bytes[: len(step.groups)]) for step in plan)
    assert size <= room
    assert all(by_name[step.name].priority is not Priority.ON_DEMAND for step in plan)
    priorities = [by_name[step.name].priority for step in plan]
    assert priorities == sorted(priorities)
