"""Callers that wait for news of a lock."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stele.client.metastore_inline import LocalAnswer
from stele.metastore.lock_queue import PATIENCE_TICKS, LockWaiters
from stele.protocol.metastore import LockResponse


def test_all_who_wait_for_a_ticket_hear_of_the_grant() -> None:
    waiters, first, second, other = LockWaiters(), LocalAnswer(), LocalAnswer(), LocalAnswer()
    waiters.add(7, 1, first)
    waiters.add(7, 1, second)
    waiters.add(8, 2, other)
    assert waiters.granted(7) == [first, second]
    assert waiters.granted(7) == []
    assert len(waiters) == 1


def test_the_end_of_a_session_concerns_its_own_tickets_only() -> None:
    waiters, mine, other = LockWaiters(), LocalAnswer(), LocalAnswer()
    waiters.add(7, 1, mine)
    waiters.add(8, 2, other)
    assert waiters.ended(1) == [mine]
    assert waiters.granted(8) == [other]


def test_nobody_waits_for_news_for_longer_than_a_while() -> None:
    waiters, early, late = LockWaiters(), LocalAnswer(), LocalAnswer()
    waiters.add(7, 1, early)
    assert waiters.tick() == []
    waiters.add(7, 1, late)
    for _ in range(PATIENCE_TICKS - 2):
        assert waiters.tick() == []
    assert waiters.tick() == [(early, LockResponse(7, is_waiting=True))]
    assert waiters.tick() == [(late, LockResponse(7, is_waiting=True))]
    assert len(waiters) == 0


def steps_of(call: Callable[[], object]) -> int:
    """How many instructions of the interpreter a call takes.

    Without the collector of cycles: what runs when it happens to come by, finalizers and
    callbacks of others, would be counted too.
    """
    steps = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return steps


def crowd(count: int) -> LockWaiters:
    waiters = LockWaiters()
    for number in range(1, count + 1):
        waiters.add(1_000_000 + number, number, LocalAnswer())
    return waiters


def test_a_wake_up_costs_the_same_however_many_wait() -> None:
    few, many = crowd(3), crowd(3_000)
    assert steps_of(lambda: many.ended(2)) == steps_of(lambda: few.ended(2))
    assert steps_of(lambda: many.ended(99_999)) == steps_of(lambda: few.ended(99_999))
    assert steps_of(lambda: many.granted(1_000_003)) == steps_of(lambda: few.granted(1_000_003))
    assert steps_of(many.tick) == steps_of(few.tick)


def test_who_was_told_is_not_told_again_when_its_time_is_over() -> None:
    waiters, told, ended, late = LockWaiters(), LocalAnswer(), LocalAnswer(), LocalAnswer()
    waiters.add(7, 1, told)
    waiters.add(8, 2, ended)
    waiters.add(9, 2, late)
    assert waiters.granted(7) == [told]
    assert waiters.ended(2) == [ended, late]
    again = LocalAnswer()
    waiters.add(9, 2, again)
    heard = [waiter for _ in range(PATIENCE_TICKS) for waiter, _ in waiters.tick()]
    assert heard == [again]
    assert len(waiters) == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 5)),
            st.tuples(st.just("granted"), st.integers(0, 5)),
            st.tuples(st.just("ended"), st.integers(0, 2)),
            st.tuples(st.just("tick"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_everybody_is_told_once_and_as_by_a_plain_list(course: list[tuple[str, int]]) -> None:
    waiters = LockWaiters()
    plain: list[tuple[int, int, LocalAnswer]] = []
    ticks = 0
    for what, number in course:
        if what == "add":
            answer = LocalAnswer()
            waiters.add(number, number % 3, answer)
            plain.append((number, ticks + PATIENCE_TICKS, answer))
            continue
        if what == "tick":
            ticks += 1
            told = [waiter for waiter, _ in waiters.tick()]
            expected = [entry for entry in plain if entry[1] <= ticks]
        elif what == "granted":
            told = waiters.granted(number)
            expected = [entry for entry in plain if entry[0] == number]
        else:
            told = waiters.ended(number)
            expected = [entry for entry in plain if entry[0] % 3 == number]
        assert set(map(id, told)) == {id(entry[2]) for entry in expected}
        assert len(told) == len(expected)
        plain = [entry for entry in plain if entry not in expected]
        assert len(waiters) == len({entry[0] for entry in plain})
