"""The client for threads: the same names, the same answers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from stele.client import metastore as sync
from stele.client import metastore_aio, metastore_session, metastore_transaction, metastore_watch
from stele.client.metastore_admin import MetastoreAdmin
from stele.errors import Conflict, DeadlineExceeded, InvalidArgument
from stele.protocol.metastore_acl import AccessRule
from stele.protocol.metastore_values import Compare, CompareField, Put, Relation
from tests.unit.metastore.embedded_support import Home

PAIRS = [
    (sync.Metastore, metastore_aio.AsyncMetastore),
    (sync.Session, metastore_session.AsyncSession),
    (sync.Lock, metastore_session.AsyncLock),
    (sync.MetastoreTransaction, metastore_transaction.AsyncMetastoreTransaction),
    (sync.Watch, metastore_watch.AsyncWatch),
    (sync.Admin, MetastoreAdmin),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_every_name_has_its_counterpart(ours: type, theirs: type) -> None:
    def names(cls: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(cls, inspect.isfunction)
            if not name.startswith("_") and name != "for_coroutines"
        }

    mine, others = names(ours), names(theirs)
    assert set(mine) <= set(others)
    if ours is sync.Admin:
        assert set(mine) == set(others)
    for name, parameters in mine.items():
        assert parameters == others[name], name


def test_everything_works_from_a_thread() -> None:
    ms = Home().ms
    with ms:
        index = ms.put("/a", b"1")
        assert ms.index() >= index
        done = ms.txn([Compare("/a", CompareField.VALUE, Relation.EQUAL, b"1")], [Put("/a", b"2")])
        assert done.succeeded
        with ms.transaction() as t:
            assert [item.value for item in t.range("/")] == [b"2"]
            t.delete("/a")
        assert t.index is not None
        assert ms.get("/a") is None
        with ms.session(ttl="5s") as session:
            session.check()
            session.on_lost(lambda: None)
            ms.put("/alive", b"", session=session)
            with session.lock("/locks/x", exclusive=False) as lock:
                assert lock.is_held
                assert lock.token > session.id
        assert ms.range("/") == []
        (member,) = ms.admin.members()
        assert member.is_leader
        with pytest.raises(InvalidArgument, match="has no quota"):
            ms.admin.set_quota(1 << 20)
        ms.admin.set_acl("/", AccessRule("admin/embedded", "rwl"), expected=())
        ms.admin.grant("/", "admin/embedded", "a")
        ms.admin.grant("/x/", "client/a", "rw")
        ms.admin.revoke("/x/", "client/a", "w")
        assert [(d.directory, d.rules) for d in ms.admin.acl().directories] == [
            ("/", (AccessRule("admin/embedded", "rwla"),)),
            ("/x/", (AccessRule("client/a", "r"),)),
        ]
        ms.admin.switch_acl(enabled=True)
        ms.put("/still", b"allowed")
        with pytest.raises(InvalidArgument, match="one member"):
            ms.admin.join(5, "127.0.0.1:1")


def test_a_key_that_is_not_text_is_refused() -> None:
    key: Any = b"/e"
    with Home().ms as ms:
        for refused in (
            lambda: ms.put(key, b"1"),
            lambda: ms.get(key),
            lambda: ms.delete(key),
            lambda: ms.txn([], [Put(key, b"1")]),
            lambda: ms.transaction().put(key, b"1"),
        ):
            with pytest.raises(InvalidArgument, match=r"a key is text, .*bytes"):
                refused()


def test_a_transaction_is_run_again_until_it_fits() -> None:
    ms = Home().ms
    ms.put("/n", b"0")
    attempts: list[int] = []

    def increment(t: sync.MetastoreTransaction) -> int:
        seen = t.get("/n")
        assert seen is not None
        if not attempts:
            ms.put("/n", b"5")
        attempts.append(1)
        t.put("/n", b"%d" % (int(seen.value) + 1))
        return len(attempts)

    assert ms.transact(increment) == 2
    assert ms.get("/n").value == b"6"  # type: ignore[union-attr]
    with pytest.raises(DeadlineExceeded, match="met others"):
        ms.transact(_refuse, timeout=0)


def _refuse(_t: sync.MetastoreTransaction) -> None:
    raise Conflict("mine")
