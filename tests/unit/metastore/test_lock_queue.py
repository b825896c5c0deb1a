"""Callers that wait for news of a lock."""

from __future__ import annotations

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
