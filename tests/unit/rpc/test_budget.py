"""A budget says whether more fits."""

from __future__ import annotations

from stele.rpc.budget import ByteBudget


def test_it_is_full_at_its_limit_and_not_before() -> None:
    budget = ByteBudget(100)
    assert budget.has_room(100)
    assert not budget.has_room(101)
    budget.bytes_used += 60
    assert budget.has_room(40)
    assert not budget.has_room(41)
    budget.bytes_used -= 60
    assert budget.has_room(100)
