"""Column sets against plain sets over a small universe."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stele.model.column_set import ALL_COLUMNS, ColumnSet

UNIVERSE = ("a", "b", "c", "d")
"""Sets name only the first three: the last stands for families nobody knows."""

sets = st.builds(ColumnSet, st.frozensets(st.sampled_from(UNIVERSE[:3])), complement=st.booleans())


def members(one: ColumnSet) -> frozenset[str]:
    return frozenset(one.select(UNIVERSE))


@given(sets, sets)
def test_operations_agree_with_sets(a: ColumnSet, b: ColumnSet) -> None:
    assert members(a.intersect(b)) == members(a) & members(b)
    assert members(a.union(b)) == members(a) | members(b)
    assert members(a.minus(b)) == members(a) - members(b)
    assert a.overlaps(b) == bool(members(a) & members(b))
    assert a.covers(b) == (members(a) >= members(b))


@given(sets)
def test_inverse_and_emptiness(a: ColumnSet) -> None:
    assert a.inverse().inverse() == a
    assert members(a.inverse()) == frozenset(UNIVERSE) - members(a)
    assert a.is_empty == (not members(a))
    assert a.is_everything == (members(a) == frozenset(UNIVERSE))
    assert a.minus(a).is_empty


def test_select_keeps_the_order_given() -> None:
    assert ColumnSet.all_but(["b"]).select(["c", "b", "a"]) == ("c", "a")
    assert "anything" in ALL_COLUMNS


def test_text() -> None:
    assert str(ColumnSet.of(["b", "a"])) == "a b"
    assert str(ColumnSet.all_but(["a"])) == "* but a"
    assert str(ALL_COLUMNS) == "*"
