"""Deadlines of sessions: late is allowed, early never."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.metastore.session_timers import EXPIRED_PER_ENTRY_MAX, SessionTimers

TTL_US = 1_000
AWAY_US = 100_000


def leading(*sessions: int) -> SessionTimers:
    timers = SessionTimers(AWAY_US)
    timers.replace((session, TTL_US) for session in sessions)
    timers.lead()
    return timers


def test_a_session_ends_one_ttl_after_the_first_tick() -> None:
    timers = leading(1)
    assert timers.tick(50) == []
    assert timers.tick(50 + TTL_US - 1) == []
    assert timers.tick(50 + TTL_US) == [1]


def test_a_renewal_counts_from_the_next_tick() -> None:
    timers = leading(1)
    timers.tick(0)
    assert timers.renew(1) == TTL_US
    assert timers.tick(600) == []
    assert timers.tick(TTL_US) == []
    assert timers.tick(600 + TTL_US) == [1]


def test_a_session_that_opens_while_leading_runs_from_the_next_tick() -> None:
    timers = leading()
    timers.tick(0)
    timers.opened(9, TTL_US)
    timers.tick(10)
    assert timers.tick(9 + TTL_US) == []
    assert timers.tick(10 + TTL_US) == [9]


def test_one_that_is_about_to_end_is_not_renewed() -> None:
    timers = leading(1)
    timers.tick(0)
    assert timers.tick(TTL_US) == [1]
    timers.expire([1])
    assert timers.renew(1) is None
    assert timers.tick(2 * TTL_US) == []


def test_what_could_not_be_proposed_is_due_again_unless_renewed() -> None:
    timers = leading(1, 2)
    timers.tick(0)
    due = timers.tick(TTL_US)
    timers.put_back(due)
    assert timers.renew(1) == TTL_US
    assert timers.tick(TTL_US + 1) == [2]


def test_a_new_leader_gives_everybody_a_full_ttl() -> None:
    timers = leading(1)
    timers.tick(0)
    timers.follow()
    assert timers.renew(1) is None
    assert timers.tick(5 * TTL_US) == []
    timers.lead()
    assert timers.tick(6 * TTL_US) == []
    assert timers.tick(7 * TTL_US) == [1]


def test_a_leader_that_was_suspended_begins_anew() -> None:
    timers = leading(1)
    timers.tick(0)
    assert timers.tick(AWAY_US + 1) == []
    assert timers.tick(AWAY_US + 1 + TTL_US) == [1]


def test_ended_sessions_are_forgotten() -> None:
    timers = leading(1)
    timers.tick(0)
    timers.ended(1)
    timers.ended(1)
    assert len(timers) == 0
    assert timers.renew(1) is None
    assert timers.tick(TTL_US) == []


def test_a_replaced_state_has_other_sessions() -> None:
    timers = leading(1)
    timers.tick(0)
    timers.replace([(2, TTL_US)])
    assert timers.renew(1) is None
    timers.tick(500)
    assert timers.tick(500 + TTL_US) == [2]


def test_at_most_so_many_end_at_once() -> None:
    timers = leading(*range(EXPIRED_PER_ENTRY_MAX + 10))
    timers.tick(0)
    first = timers.tick(TTL_US)
    assert len(first) == EXPIRED_PER_ENTRY_MAX
    timers.expire(first)
    assert len(timers.tick(TTL_US)) == 10


STEPS = st.lists(
    st.tuples(st.sampled_from(["tick", "renew", "lead"]), st.integers(1, 3), st.integers(1, 400)),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_no_session_ever_ends_within_a_ttl_of_its_last_renewal(
    steps: list[tuple[str, int, int]],
) -> None:
    timers = leading(1, 2, 3)
    now = 0
    renewed = dict.fromkeys((1, 2, 3), 0)
    for what, session, amount in steps:
        now += amount
        if what == "renew" and timers.renew(session) is not None:
            renewed[session] = now
        elif what == "lead":
            timers.lead()
            renewed = dict.fromkeys(renewed, now)
        elif what == "tick":
            due = timers.tick(now)
            assert all(now - renewed[one] >= TTL_US for one in due)
            timers.expire(due)
