"""What is asked of one node, for itself."""

from __future__ import annotations

from stele.protocol.metastore_member import MEMBER
from stele.rpc import Role


def test_numbers_of_methods_are_never_used_again() -> None:
    assert {method.number & 0xFF: method.name for method in MEMBER.methods()} == {
        1: "drain",
        2: "bootstrap",
    }


def test_those_who_only_use_a_metastore_may_ask_none_of_it() -> None:
    for method in MEMBER.methods():
        assert Role.CLIENT not in method.permission.roles
        assert Role.ADMIN in method.permission.roles
