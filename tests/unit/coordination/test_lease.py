"""A claim belongs to whoever came first, as long as its session lives."""

from __future__ import annotations

import pytest

from stele.coordination.lease import claim
from stele.errors import AlreadyExists, SessionExpired
from tests.unit.coordination.direct_metastore import DirectMetastore


def test_the_first_has_it() -> None:
    metastore = DirectMetastore()
    lease = claim(metastore, metastore.session(), "/servers/1", b"here")
    with pytest.raises(AlreadyExists, match="/servers/1"):
        claim(metastore, metastore.session(), "/servers/1", b"there")
    lease.update(b"moved")
    item = metastore.get("/servers/1")
    assert item is not None
    assert item.value == b"moved"
    lease.release()
    lease.release()
    assert metastore.get("/servers/1") is None


def test_it_goes_with_the_session_and_the_next_has_a_higher_epoch() -> None:
    metastore = DirectMetastore()
    session = metastore.session()
    first = claim(metastore, session, "/servers/1", b"")
    session.close()
    second = claim(metastore, metastore.session(), "/servers/1", b"new")
    assert second.epoch > first.epoch
    with pytest.raises(SessionExpired):
        first.update(b"late")
    first.release()
    item = metastore.get("/servers/1")
    assert item is not None
    assert item.value == b"new"
