"""Identities come from certificates or claims, and permissions are denied unless given."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, PermissionDenied, Unauthenticated
from stele.rpc.identity import (
    ANY_CLUSTER,
    EVERYONE,
    PeerIdentity,
    Permission,
    Proof,
    Role,
    admit,
    allow,
    clusters_agree,
    identity_from_uris,
    identity_uri,
    parse_roles,
)


def certified(*roles: Role, cluster: str = "c1") -> PeerIdentity:
    return PeerIdentity(frozenset(roles), "n1", Proof.CERTIFICATE, cluster, "0A")


def test_a_certificate_names_its_holder() -> None:
    found = identity_from_uris([identity_uri("c1", Role.TABLET, "t%207")], "0A")
    assert found == PeerIdentity(frozenset({Role.TABLET}), "t 7", Proof.CERTIFICATE, "c1", "0A")


def test_roles_of_one_holder_add_up_and_foreign_uris_do_not_count() -> None:
    uris = [
        "https://example.org/x",
        identity_uri("c1", Role.MASTER, "n1"),
        identity_uri("c1", Role.METASTORE, "n1"),
    ]
    assert identity_from_uris(uris, "1").roles == {Role.MASTER, Role.METASTORE}


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://example.org/client/x"],
        ["stele://c1/client"],
        ["stele://c1/client/"],
        ["stele://c1//x"],
        ["stele:///client/x"],
        ["stele://c1/client/x/y"],
        ["stele://c1/client/x?role=master"],
        ["stele://c1/king/x"],
        ["stele://[c1/client/x"],
        ["stele://c1/client/" + "x" * 300],
        ["stele://c1/client/x", "stele://c2/client/x"],
        ["stele://c1/client/x", "stele://c1/master/y"],
    ],
)
def test_a_certificate_that_does_not_name_one_holder_is_refused(uris: list[str]) -> None:
    with pytest.raises(Unauthenticated):
        identity_from_uris(uris, "0A")


def test_no_role_and_unknown_roles_are_refused() -> None:
    assert parse_roles(["client", "admin"]) == {Role.CLIENT, Role.ADMIN}
    for names in ([], ["root"], ["client", "Client"]):
        with pytest.raises(Unauthenticated):
            parse_roles(names)


def test_without_a_certificate_the_claim_counts() -> None:
    found = admit("tablet", "t1", "", None, Proof.KERNEL)
    assert found == PeerIdentity(frozenset({Role.TABLET}), "t1", Proof.KERNEL, ANY_CLUSTER)


def test_a_certificate_beats_the_claim() -> None:
    holder = certified(Role.MASTER, Role.METASTORE)
    assert admit("master", "somebody else", "c1", holder, Proof.CERTIFICATE) is holder


def test_a_claim_beyond_the_certificate_is_refused() -> None:
    with pytest.raises(Unauthenticated, match="says master"):
        admit("master", "n1", "c1", certified(Role.CLIENT), Proof.CERTIFICATE)
    with pytest.raises(Unauthenticated, match="cluster"):
        admit("client", "n1", "c2", certified(Role.CLIENT), Proof.CERTIFICATE)


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [("a", "a", True), ("a", "b", False), ("", "b", True), ("a", "*", True), ("*", "", True)],
)
def test_clusters(one: str, other: str, agree: bool) -> None:
    assert clusters_agree(one, other) is agree
    assert clusters_agree(other, one) is agree


def test_a_permission_names_an_action_and_roles() -> None:
    with pytest.raises(InvalidArgument):
        allow("read")
    with pytest.raises(InvalidArgument):
        allow("", Role.CLIENT)


@pytest.mark.parametrize("role", sorted(EVERYONE))
def test_only_the_named_roles_are_allowed(role: Role) -> None:
    permission: Permission = allow("repair", Role.ADMIN, Role.MASTER)
    assert permission.admits(certified(role)) is (role in {Role.ADMIN, Role.MASTER})


def test_a_denial_says_who_what_and_which_action() -> None:
    denial = allow("repair", Role.ADMIN).denial(certified(Role.CLIENT), "tablet.repair")
    assert isinstance(denial, PermissionDenied)
    assert str(denial) == "client/n1 (by certificate) may not call tablet.repair: it needs repair"


def test_one_of_several_roles_is_enough() -> None:
    assert allow("x", Role.METASTORE).admits(certified(Role.MASTER, Role.METASTORE))
    assert str(certified(Role.MASTER, Role.METASTORE)).startswith("master+metastore/n1")
