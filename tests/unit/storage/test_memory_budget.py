"""Admission: in turn, within the limit, and never stuck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.storage.memory_budget import Admission, MemoryBudget


def test_what_fits_is_admitted_at_once() -> None:
    budget = MemoryBudget(10)
    called: list[Admission] = []
    assert budget.request(6, called.append).granted
    assert budget.request(4, called.append).granted
    assert not budget.request(1, called.append).granted
    assert called == []


def test_one_oversized_request_passes_alone() -> None:
    budget = MemoryBudget(10)
    large = budget.request(1_000)
    assert large.granted
    small = budget.request(1)
    assert not small.granted
    assert budget.release(large) == [small]


def test_an_oversized_request_waits_until_it_is_alone_and_is_not_overtaken() -> None:
    budget = MemoryBudget(10)
    first = budget.request(2)
    large = budget.request(1_000)
    small = budget.request(1)
    assert (large.granted, small.granted) == (False, False)
    assert budget.release(first) == [large]
    assert budget.release(large) == [small]


def test_giving_up_lets_those_behind_in() -> None:
    budget = MemoryBudget(10)
    budget.request(8)
    large = budget.request(5)
    small = budget.request(2)
    assert budget.release(large) == [small]
    assert (budget.used_bytes, budget.waiting) == (10, 0)


def test_an_admission_is_released_once() -> None:
    budget = MemoryBudget(10)
    admission = budget.request(1)
    budget.release(admission)
    with pytest.raises(AssertionError, match="once"):
        budget.release(admission)


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="0 bytes"):
        MemoryBudget(0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 15)), max_size=60))
def test_in_any_order_of_requests_and_releases(actions: list[tuple[bool, int]]) -> None:
    budget = MemoryBudget(10)
    alive: list[Admission] = []
    granted_in_turn: list[Admission] = []
    asked: list[Admission] = []
    for ask, number in actions:
        if ask or not alive:
            admission = budget.request(number)
            asked.append(admission)
            alive.append(admission)
            if admission.granted:
                granted_in_turn.append(admission)
        else:
            granted_in_turn += budget.release(alive.pop(number % len(alive)))
        holding = [each for each in alive if each.granted]
        assert budget.used_bytes == sum(each.size for each in holding)
        assert budget.used_bytes <= 10 or sum(each.size > 0 for each in holding) == 1
        assert holding or not alive  # somebody always goes on
    order = [asked.index(each) for each in granted_in_turn]
    assert order == sorted(order)


def test_what_is_held_counts_and_lets_others_in_when_it_goes() -> None:
    budget = MemoryBudget(10)
    budget.held_bytes = 8
    small, large = budget.request(2), budget.request(3)
    assert (small.granted, large.granted) == (True, False)
    budget.held_bytes = 6
    assert budget.grant() == []
    budget.held_bytes = 5
    assert budget.grant() == [large]


def test_an_oversized_request_waits_until_nothing_is_held() -> None:
    budget = MemoryBudget(10)
    budget.held_bytes = 1
    large = budget.request(1_000)
    assert not large.granted
    budget.held_bytes = 0
    assert budget.grant() == [large]


def test_who_did_not_ask_passes_while_nobody_waits_or_holds_room() -> None:
    budget = MemoryBudget(10)
    assert budget.open_bytes == 10
    first = budget.request(4)
    assert budget.open_bytes == 6
    waiting = budget.request(7)
    assert budget.next_waiting is waiting
    assert budget.open_bytes < 0, "not even nothing"
    assert not budget.has_room(0)
    budget.release(first)
    assert budget.open_bytes == 3
    budget.release(waiting)
    assert budget.open_bytes == 10


def test_a_closed_budget_admits_nothing() -> None:
    budget = MemoryBudget(10)
    first, waiting = budget.request(6), budget.request(6)
    assert budget.close() == [waiting]
    assert budget.release(first) == []
    assert budget.release(waiting) == []
    assert budget.open_bytes < 0
    assert not budget.request(0).granted
