"""One leads, the others wait, and everybody can see who it is."""

from __future__ import annotations

import pytest

from stele.coordination.election import LEADER, Candidate, Leader, current_leader, decode_leader
from stele.errors import Corruption, DeadlineExceeded, SessionExpired
from stele.protocol.metastore_values import KeyValue
from tests.unit.coordination.direct_metastore import DirectMetastore


def test_the_first_leads_until_it_resigns() -> None:
    metastore = DirectMetastore()
    first = Candidate(metastore, metastore.session(), "/election", "a")
    second = Candidate(metastore, metastore.session(), "/election", "b")
    assert current_leader(metastore, "/election") is None
    term = first.campaign()
    assert first.is_leader
    assert current_leader(metastore, "/election") == Leader("a", term)
    with pytest.raises(DeadlineExceeded):
        second.campaign()
    first.resign()
    assert current_leader(metastore, "/election") is None
    assert second.campaign() > term
    assert not first.is_leader


def test_a_leader_whose_session_ends_is_none() -> None:
    metastore = DirectMetastore()
    session = metastore.session()
    candidate = Candidate(metastore, session, "/election", "a")
    candidate.campaign()
    session.expire()
    assert not candidate.is_leader
    assert current_leader(metastore, "/election") is None
    candidate.resign()


def test_who_lost_the_lock_before_announcing_stays_silent() -> None:
    metastore = DirectMetastore()
    session = metastore.session()
    candidate = Candidate(metastore, session, "/election", "a")
    granted = candidate._lock._lock.acquire

    def granted_too_late() -> int:
        token = granted()
        session.expire()
        return token

    candidate._lock._lock.acquire = granted_too_late  # type: ignore[method-assign]
    with pytest.raises(SessionExpired):
        candidate.campaign()
    assert current_leader(metastore, "/election") is None


def test_something_else_in_the_key_is_named() -> None:
    with pytest.raises(Corruption, match="/election/leader"):
        decode_leader(KeyValue("/election" + LEADER, b"x", 1, 1, 1))
