"""A request takes effect once, however often it is sent."""

from __future__ import annotations

import pytest

from stele.metastore.commands import (
    Acquire,
    Answer,
    CloseSession,
    Effects,
    Execute,
    Executed,
    LockAnswer,
    LockState,
    OpenSession,
    Refused,
    encode_command,
)
from stele.metastore.state import keys, retries
from stele.metastore.state.retries import IN_FLIGHT_MAX
from stele.protocol.metastore_values import Compare, CompareField, Delete, Identity, Put, Relation
from tests.unit.metastore.state.replica import TTL_US, Replica


def put(replica: Replica, identity: Identity, value: bytes = b"") -> Effects:
    return replica.apply(Execute(identity, (Put("/a", value),)))


def error_of(answer: Answer | None) -> str:
    assert isinstance(answer, Refused), answer
    return answer.error


@pytest.mark.parametrize("restart", [False, True])
def test_a_repeated_request_gets_its_first_answer(restart: bool) -> None:
    replica = Replica()
    first = put(replica, Identity(1, 1), b"1")
    put(replica, Identity(2, 1), b"2")
    if restart:
        replica.restart()
    again = put(replica, Identity(1, 1), b"1")
    assert again.answer == first.answer
    assert again.changes == ()
    assert again.index > first.index
    assert replica.contents() == {"/a": b"2"}


def test_a_refusal_is_repeated_too() -> None:
    replica = Replica()
    missing = Compare("/a", CompareField.VERSION, Relation.EQUAL, 0)
    command = Execute(Identity(1, 1), (Delete("/a"),), (missing,))
    first = replica.answer(command)
    put(replica, Identity(2, 1))
    assert replica.answer(command) == first
    closed = replica.open_session(client=5)
    foreign = CloseSession(Identity(1, 2), closed)
    refused = replica.answer(foreign)
    assert error_of(refused) == "PermissionDenied"
    replica.expire(closed)
    assert replica.answer(foreign) == refused, "even if it would be answered otherwise by now"


def test_a_session_is_opened_once() -> None:
    replica = Replica()
    command = OpenSession(Identity(1, 1), TTL_US, "x", 0)
    assert replica.answer(command) == replica.answer(command)
    assert len(replica.machine.sessions()) == 1


def test_who_waited_learns_where_the_request_stands_now() -> None:
    replica = Replica()
    holder, waiter = replica.open_session(), replica.open_session()
    replica.acquire(holder, "/l")
    asked = Acquire(Identity(1, 9, 8), waiter, "/l")
    first = replica.answer(asked)
    assert isinstance(first, LockAnswer)
    assert first.state == LockState.WAITING
    assert replica.answer(asked) == first
    token = replica.expire(holder).index
    assert replica.answer(asked) == LockAnswer(LockState.GRANTED, first.ticket, token)
    replica.expire(waiter)
    assert replica.answer(asked) == LockAnswer(LockState.ENDED, first.ticket)


def test_answers_that_the_client_has_are_forgotten() -> None:
    replica = Replica()
    for sequence in range(1, 11):
        put(replica, Identity(1, sequence, sequence - 1))
    kept = list(replica.values.scan(*keys.table_bounds(keys.RETRIES)))
    assert len(kept) == 1
    assert error_of(put(replica, Identity(1, 5, 4)).answer) == "Conflict"
    replica.restart()
    assert error_of(put(replica, Identity(1, 5, 4)).answer) == "Conflict"


def test_requests_may_come_in_any_order() -> None:
    replica = Replica()
    for sequence in (3, 1, 2):
        assert isinstance(put(replica, Identity(1, sequence)).answer, Executed)
    first = put(replica, Identity(1, 1))
    assert first.changes == ()


def test_too_many_in_flight_are_refused() -> None:
    replica = Replica()
    put(replica, Identity(1, 1))
    assert error_of(put(replica, Identity(1, IN_FLIGHT_MAX + 1)).answer) == "LimitExceeded"
    assert isinstance(put(replica, Identity(1, IN_FLIGHT_MAX)).answer, Executed)


@pytest.mark.parametrize("restart", [False, True])
def test_the_client_silent_longest_is_forgotten_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    monkeypatch.setattr(retries, "CLIENTS_MAX", 2)
    replica = Replica()
    put(replica, Identity(1, 1))
    put(replica, Identity(2, 1))
    put(replica, Identity(1, 2))
    if restart:
        replica.restart()
    put(replica, Identity(3, 1))
    known = {keys.number_in(k, 1) for k, _ in replica.values.scan(b"\x07", b"\x08")}
    assert known == {1, 3}
    stale = put(replica, Identity(2, IN_FLIGHT_MAX + 5, IN_FLIGHT_MAX + 4))
    assert error_of(stale.answer) == "StaleHandle"


@pytest.mark.parametrize("restart", [False, True])
def test_a_forgotten_client_that_asks_again_is_not_served_twice(
    monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    monkeypatch.setattr(retries, "CLIENTS_MAX", 2)
    replica = Replica()
    for client in (1, 2, 3):
        put(replica, Identity(client, 1, 0, born=replica.machine.applied_index), b"%d" % client)
    if restart:
        replica.restart()
    assert error_of(put(replica, Identity(1, 1, 0, born=0), b"1").answer) == "StaleHandle"
    assert replica.contents() == {"/a": b"3"}
    born = replica.machine.applied_index
    assert isinstance(put(replica, Identity(4, 1, 0, born), b"4").answer, Executed), "it is new"


def test_after_a_restore_only_new_clients_are_served() -> None:
    replica = Replica()
    put(replica, Identity(1, 1), b"1")
    born = replica.machine.restore(100)
    assert error_of(put(replica, Identity(1, 1), b"1").answer) == "StaleHandle"
    assert isinstance(put(replica, Identity(2, 1, 0, born), b"2").answer, Executed)


def test_an_identity_that_contradicts_itself_is_refused() -> None:
    replica = Replica()
    payload = Execute(Identity(1, 5, 9), (Put("/a", b""),))
    effects = replica.machine.apply([(1, encode_command(payload))])[0]
    assert error_of(effects.answer) == "InvalidArgument"
