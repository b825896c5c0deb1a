"""Locks: in order, never two who exclude each other, never one who is gone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.metastore.commands import (
    Acquire,
    LockAnswer,
    LockInfo,
    LockRequest,
    LockState,
    Refused,
)
from stele.metastore.state import locks
from stele.metastore.state.locks import is_compatible, passed_on, requested, without
from tests.unit.metastore.state.replica import Replica


def test_the_token_is_the_index_of_the_granting_entry() -> None:
    replica = Replica()
    first, second = replica.open_session(), replica.open_session()
    held = replica.acquire(first, "/l")
    assert held == LockAnswer(LockState.GRANTED, replica.machine.applied_index, held.ticket)
    waiting = replica.acquire(second, "/l")
    assert waiting.token == 0
    effects = replica.release(first, "/l")
    (granted,) = effects.granted
    assert granted.token == effects.index
    assert replica.machine.lock_state(second, "/l", waiting.ticket) == LockAnswer(
        LockState.GRANTED, waiting.ticket, effects.index
    )


def test_nobody_overtakes() -> None:
    replica = Replica()
    reader, writer, late = (replica.open_session() for _ in range(3))
    replica.acquire(reader, "/l", exclusive=False)
    replica.acquire(writer, "/l", exclusive=True)
    assert replica.acquire(late, "/l", exclusive=False).state == LockState.WAITING
    assert [each.session for each in replica.release(reader, "/l").granted] == [writer]
    assert [each.session for each in replica.release(writer, "/l").granted] == [late]


def test_readers_at_the_head_get_it_together() -> None:
    replica = Replica()
    writer, *readers, last = (replica.open_session() for _ in range(5))
    replica.acquire(writer, "/l")
    for reader in readers:
        replica.acquire(reader, "/l", exclusive=False)
    replica.acquire(last, "/l")
    assert [each.session for each in replica.release(writer, "/l").granted] == readers


def test_who_does_not_want_to_wait_leaves_no_trace() -> None:
    replica = Replica()
    first, second = replica.open_session(), replica.open_session()
    replica.acquire(first, "/l")
    assert replica.acquire(second, "/l", wait=False) == LockAnswer(LockState.BUSY, 0)
    assert replica.machine.lock("/l").waiters == ()


def test_a_session_that_ended_while_waiting_is_skipped() -> None:
    replica = Replica()
    holder, gone, heir = (replica.open_session() for _ in range(3))
    for session in (holder, gone, heir):
        replica.acquire(session, "/l")
    assert replica.expire(gone).granted == ()
    assert [each.session for each in replica.release(holder, "/l").granted] == [heir]


def test_sessions_that_end_together_pass_nothing_to_each_other() -> None:
    replica = Replica()
    holder, gone, heir = (replica.open_session() for _ in range(3))
    for session in (holder, gone, heir):
        replica.acquire(session, "/l")
    assert [each.session for each in replica.expire(holder, gone).granted] == [heir]


def test_one_who_gave_up_leaves_the_queue() -> None:
    replica = Replica()
    holder, waiter = replica.open_session(), replica.open_session()
    replica.acquire(holder, "/l")
    ticket = replica.acquire(waiter, "/l").ticket
    assert replica.cancel(waiter, "/l", ticket).answer == LockAnswer(LockState.ENDED, ticket)
    assert replica.release(holder, "/l").granted == ()


def test_giving_up_lets_those_behind_through() -> None:
    replica = Replica()
    reader, writer, other = (replica.open_session() for _ in range(3))
    replica.acquire(reader, "/l", exclusive=False)
    ticket = replica.acquire(writer, "/l").ticket
    replica.acquire(other, "/l", exclusive=False)
    assert [each.session for each in replica.cancel(writer, "/l", ticket).granted] == [other]


def test_one_who_gave_up_too_late_holds_the_lock() -> None:
    replica = Replica()
    holder, waiter = replica.open_session(), replica.open_session()
    replica.acquire(holder, "/l")
    ticket = replica.acquire(waiter, "/l").ticket
    token = replica.release(holder, "/l").index
    answer = replica.cancel(waiter, "/l", ticket).answer
    assert answer == LockAnswer(LockState.GRANTED, ticket, token)


def test_a_session_asks_once() -> None:
    replica = Replica()
    session = replica.open_session()
    replica.acquire(session, "/l")
    refused = replica.answer(Acquire(replica.identity(1), session, "/l"))
    assert isinstance(refused, Refused)
    assert refused.error == "AlreadyExists"


def test_a_release_names_the_request_it_means() -> None:
    replica = Replica()
    session = replica.open_session()
    ticket = replica.acquire(session, "/l").ticket
    assert replica.release(session, "/other").answer == LockAnswer(LockState.ENDED, 0)
    assert replica.cancel(session, "/l", ticket + 1).answer == LockAnswer(
        LockState.ENDED, ticket + 1
    )
    assert replica.machine.lock("/l").holders


def test_another_client_cannot_touch_it() -> None:
    replica = Replica()
    session = replica.open_session(client=1)
    ticket = replica.acquire(session, "/l", client=1).ticket
    for answer in (
        replica.release(session, "/l", client=2).answer,
        replica.cancel(session, "/l", ticket, client=2).answer,
        replica.answer(Acquire(replica.identity(2), session, "/x")),
    ):
        assert isinstance(answer, Refused)
        assert answer.error == "PermissionDenied"


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAITERS_MAX", 2)
    replica = Replica()
    for _ in range(2):
        replica.acquire(replica.open_session(), "/l")
    session = replica.open_session()
    refused = replica.answer(Acquire(replica.identity(1), session, "/l"))
    assert isinstance(refused, Refused)
    assert refused.error == "LimitExceeded"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.just("ask"), st.integers(1, 5), st.booleans())
        | st.tuples(st.just("go"), st.integers(1, 5), st.booleans()),
        max_size=30,
    )
)
def test_any_course_of_a_lock(steps: list[tuple[str, int, bool]]) -> None:
    info = LockInfo()
    tokens: dict[int, int] = {}
    for index, (what, session, exclusive) in enumerate(steps, start=1):
        if what == "ask":
            if any(each.session == session for each in (*info.holders, *info.waiters)):
                continue
            info = requested(info, LockRequest(index, session, exclusive))
        else:
            info, _ = passed_on(without(info, {session}), index)
        exclusives = [each for each in info.holders if each.exclusive]
        assert not exclusives or len(info.holders) == 1
        assert [each.ticket for each in info.waiters] == sorted(e.ticket for e in info.waiters)
        assert all(each.token for each in info.holders)
        if info.waiters:
            assert info.holders, "nobody waits for a lock that is free"
            assert not is_compatible(info.holders, info.waiters[0].exclusive)
        for holder in info.holders:
            tokens.setdefault(holder.ticket, holder.token)
            assert tokens[holder.ticket] == holder.token, "a token never changes"
