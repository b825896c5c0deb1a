"""A fenced lock: what is written under it is written by its holder."""

from __future__ import annotations

import pytest

from stele.coordination.lock import FencedLock
from stele.errors import DeadlineExceeded, InvalidArgument, SessionExpired
from stele.protocol.metastore_values import Compare, CompareField, Put, Relation
from tests.unit.coordination.direct_metastore import DirectMetastore


def test_the_holder_writes() -> None:
    metastore = DirectMetastore()
    with FencedLock(metastore, metastore.session(), "/locks/x") as lock:
        assert lock.token > 0
        lock.write(Put("/a", b"1"), Put("/b", b"1"))
    assert [item.key for item in metastore.range("/")] == ["/a", "/b"]
    assert metastore.machine.lock("/locks/x").holders == ()


def test_one_whose_session_ended_writes_nothing() -> None:
    metastore = DirectMetastore()
    first = metastore.session()
    with FencedLock(metastore, first, "/locks/x") as lock:
        first.expire()
        with FencedLock(metastore, metastore.session(), "/locks/x") as other:
            assert other.token > lock.token
            with pytest.raises(SessionExpired, match="nothing was written"):
                lock.write(Put("/a", b"late"))
    assert metastore.get("/a") is None


def test_who_does_not_hold_it_yet_or_any_more_writes_nothing() -> None:
    metastore = DirectMetastore()
    lock = FencedLock(metastore, metastore.session(), "/locks/x")
    with pytest.raises(SessionExpired, match=r"/locks/x is not held: nothing was written"):
        lock.write(Put("/a", b"early"))
    with lock:
        pass
    with pytest.raises(SessionExpired, match=r"/locks/x is not held: nothing was written"):
        lock.write(Put("/a", b"late"))
    assert metastore.get("/a") is None


def test_the_token_of_a_lock_that_is_not_held_proves_nothing() -> None:
    metastore = DirectMetastore()
    lock = metastore.session().lock("/locks/x")
    held = Compare("/locks/x", CompareField.TOKEN, Relation.EQUAL, lock.token)
    with pytest.raises(InvalidArgument, match="not acquired, or is given back"):
        metastore.txn([held], [Put("/a", b"1")])
    free = Compare("/locks/x", CompareField.TOKEN, Relation.LESS, 1)
    assert metastore.txn([free], [Put("/a", b"2")]).succeeded
    lock.acquire()
    assert not metastore.txn([free], [Put("/a", b"3")]).succeeded


def test_two_do_not_hold_it() -> None:
    metastore = DirectMetastore()
    with (
        FencedLock(metastore, metastore.session(), "/locks/x"),
        pytest.raises(DeadlineExceeded),
        FencedLock(metastore, metastore.session(), "/locks/x"),
    ):
        pass
