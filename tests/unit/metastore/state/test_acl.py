"""Access rules: by directory, the longest holds, and no spelling gets around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.metastore.commands import AclRule, Done, Grant, Refused, SetAcl, SwitchAcl
from stele.metastore.paths import bounds
from stele.metastore.state.acl import may
from stele.protocol.metastore_values import KeyRange
from tests.unit.metastore.state.replica import Replica

ADMIN = AclRule("root", Grant.ALL)
RULES = {
    "/": (ADMIN,),
    "/a/": (AclRule("ada", Grant.READ | Grant.WRITE), AclRule("*", Grant.READ)),
    "/a/secret/": (AclRule("ada", Grant.READ),),
}


@pytest.mark.parametrize(
    ("who", "grant", "selected", "allowed"),
    [
        ("ada", Grant.WRITE, KeyRange("/a/x"), True),
        ("bob", Grant.READ, KeyRange("/a/x"), True),
        ("bob", Grant.WRITE, KeyRange("/a/x"), False),
        ("ada", Grant.READ | Grant.LOCK, KeyRange("/a/x"), False),
        ("ada", Grant.READ, KeyRange("/a"), False),
        ("ada", Grant.READ, KeyRange("/ab"), False),
        ("ada", Grant.READ, KeyRange("/a0"), False),
        ("root", Grant.READ, KeyRange("/b"), True),
        ("root", Grant.WRITE, KeyRange("/a/x"), False),
        ("bob", Grant.READ, KeyRange("/a/secret/x"), False),
        ("ada", Grant.WRITE, KeyRange("/a/secret/x"), False),
        ("ada", Grant.READ, KeyRange("/a/", "/a0"), True),
        ("bob", Grant.READ, KeyRange("/a/", "/a0"), False),
        ("bob", Grant.READ, KeyRange("/a/t", "/a/z"), True),
        ("bob", Grant.READ, KeyRange("/a/", "/b"), False),
        ("root", Grant.READ, KeyRange("/", "0"), False),
        ("root", Grant.READ, KeyRange("/b/", "/b0"), True),
        ("", Grant.WRITE, KeyRange("/a/x"), False),
        ("*", Grant.WRITE, KeyRange("/a/x"), False),
    ],
)
def test_what_the_rules_say(who: str, grant: Grant, selected: KeyRange, allowed: bool) -> None:
    assert may(RULES, who, grant, selected) is allowed


def test_deny_is_the_default() -> None:
    assert not may({}, "root", Grant.READ, KeyRange("/a"))
    assert not may({}, "root", Grant.READ, KeyRange("/", "0"))


KEYS = ["/a", "/a/x", "/a/secret/k", "/a/z/y", "/b", "/b/c"]
edges = st.sampled_from([*KEYS, "/", "/a/", "/a0", "/a/secret/", "/a/secret0", "/b0", "0"])


@given(edges, edges, st.sampled_from(["ada", "bob", "root"]), st.sampled_from(list(Grant)))
def test_a_range_is_allowed_only_if_every_key_in_it_is(
    start: str, end: str, who: str, grant: Grant
) -> None:
    if start >= end:
        return
    selected = KeyRange(start, end)
    low, high = bounds(selected)
    if may(RULES, who, grant, selected):
        assert all(may(RULES, who, grant, KeyRange(key)) for key in KEYS if low <= key < high)


def test_rules_are_kept_and_removed() -> None:
    replica = Replica()
    replica.answer(SetAcl(replica.identity(1), "/", (ADMIN,)))
    replica.answer(SetAcl(replica.identity(1), "/a/", RULES["/a/"]))
    assert replica.machine.may("nobody", Grant.WRITE, KeyRange("/b")), "they are not switched on"
    assert isinstance(replica.answer(SwitchAcl(replica.identity(1), True)), Done)
    replica.restart()
    assert not replica.machine.may("nobody", Grant.WRITE, KeyRange("/b"))
    assert replica.machine.may("ada", Grant.WRITE, KeyRange("/a/x"))
    replica.answer(SetAcl(replica.identity(1), "/a/", ()))
    assert not replica.machine.may("ada", Grant.WRITE, KeyRange("/a/x")), "at once"
    assert replica.machine.may("root", Grant.WRITE, KeyRange("/a/x"))
    replica.answer(SwitchAcl(replica.identity(1), False))
    assert replica.machine.may("nobody", Grant.WRITE, KeyRange("/b"))


def test_nobody_is_locked_out() -> None:
    replica = Replica()
    assert isinstance(replica.answer(SwitchAcl(replica.identity(1), True)), Refused)
    replica.answer(SetAcl(replica.identity(1), "/", (ADMIN,)))
    replica.answer(SwitchAcl(replica.identity(1), True))
    for rules in ((), (AclRule("ada", Grant.READ),)):
        refused = replica.answer(SetAcl(replica.identity(1), "/", rules))
        assert isinstance(refused, Refused)
        assert "ADMIN" in refused.message
    assert replica.machine.may("root", Grant.ADMIN, KeyRange("/x"))
