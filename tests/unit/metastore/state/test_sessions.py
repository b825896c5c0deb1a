"""Sessions end by an entry, and take everything with them."""

from __future__ import annotations

import pytest

from stele.metastore.commands import Done, Execute, OpenSession, Refused
from stele.metastore.state import sessions
from stele.protocol.metastore_values import Change, Put
from tests.unit.metastore.state.replica import TTL_US, Replica


def test_the_id_is_the_index_and_never_comes_again() -> None:
    replica = Replica()
    first = replica.open_session()
    assert first == replica.machine.applied_index
    replica.close_session(first)
    assert replica.open_session() > first


def test_ephemeral_keys_go_with_their_session() -> None:
    replica = Replica()
    session = replica.open_session()
    replica.put("/mine", b"1", session)
    replica.put("/stays", b"1")
    effects = replica.close_session(session)
    assert effects.changes == (Change("/mine", None),)
    assert effects.ended == (session,)
    assert replica.contents() == {"/stays": b"1"}


def test_a_key_belongs_to_who_put_it_last() -> None:
    replica = Replica()
    first, second = replica.open_session(), replica.open_session()
    replica.put("/a", b"1", first)
    replica.put("/b", b"1", first)
    replica.put("/c", b"1", first)
    replica.put("/a", b"2", second)
    replica.put("/b", b"2")
    replica.delete("/c")
    replica.put("/c", b"3")
    assert replica.expire(first).changes == ()
    assert replica.expire(second).changes == (Change("/a", None),)
    assert replica.contents() == {"/b": b"2", "/c": b"3"}


def test_an_ended_session_can_do_nothing() -> None:
    replica = Replica()
    session = replica.open_session()
    replica.expire(session)
    refused = replica.answer(
        Execute(replica.identity(1), (Put("/x", b""), Put("/a", b"", session)))
    )
    assert isinstance(refused, Refused)
    assert refused.error == "SessionExpired"
    assert replica.contents() == {}, "none of the operations was done"


def test_only_the_client_that_opened_it_may_use_it() -> None:
    replica = Replica()
    session = replica.open_session(client=1)
    for answer in (
        replica.answer(Execute(replica.identity(2), (Put("/a", b"", session),))),
        replica.close_session(session, client=2).answer,
    ):
        assert isinstance(answer, Refused)
        assert answer.error == "PermissionDenied"


def test_the_end_is_idempotent() -> None:
    replica = Replica()
    session = replica.open_session()
    assert replica.expire(session, session, 99).ended == (session,)
    assert replica.expire(session).ended == ()
    assert isinstance(replica.close_session(session).answer, Done)


def test_they_are_there_after_a_restart() -> None:
    replica = Replica()
    kept, gone = replica.open_session(), replica.open_session()
    replica.put("/mine", b"", kept)
    replica.acquire(kept, "/l")
    replica.close_session(gone)
    replica.restart()
    (info,) = replica.machine.sessions()
    assert (info.id, info.ttl_us, info.owner) == (kept, TTL_US, "test")
    assert replica.machine.session(kept) == info
    assert replica.expire(kept).changes == (Change("/mine", None),)
    assert replica.machine.lock("/l").holders == ()


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 1)
    replica = Replica()
    replica.open_session()
    refused = replica.answer(OpenSession(replica.identity(1), TTL_US, "", 0))
    assert isinstance(refused, Refused)
    assert refused.error == "LimitExceeded"
