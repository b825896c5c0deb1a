"""Waits grow to a limit, and dice spread them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.rpc.backoff_policy import BackoffPolicy


def test_spans_double_up_to_the_limit() -> None:
    policy = BackoffPolicy(first_us=10, last_us=100)
    assert [policy.span_us(n) for n in range(1, 7)] == [10, 20, 40, 80, 100, 100]


@given(st.integers(1, 10_000), st.data())
def test_a_wait_is_at_least_half_of_its_span(failures: int, draw: st.DataObject) -> None:
    policy = BackoffPolicy()
    span_us = policy.span_us(failures)
    dice = draw.draw(st.integers(0, span_us // 2 - 1))
    assert span_us // 2 <= policy.wait_us(failures, dice) <= span_us <= policy.last_us


def test_dice_spread_the_waits() -> None:
    policy = BackoffPolicy()
    waits = {policy.wait_us(3, dice) for dice in range(policy.span_us(3) // 2)}
    assert len(waits) == policy.span_us(3) // 2


@pytest.mark.parametrize(("first_us", "last_us"), [(0, 10), (1, 10), (20, 10)])
def test_impossible_policies_are_refused(first_us: int, last_us: int) -> None:
    with pytest.raises(InvalidArgument):
        BackoffPolicy(first_us, last_us)
