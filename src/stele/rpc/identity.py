"""Who is at the other end, and what a method demands of it.

A certificate names its holder by one or more URIs in the subject alternative name:

    stele://<cluster>/<role>/<name>          `*` as the cluster fits every cluster

All of them must agree on cluster and name; the roles add up, because a master is also a metastore
node. On a Unix socket the kernel vouches for the user, and on a plaintext loopback connection
nobody does; there the role is what the hello claims, and `proof` says how much that is worth.

Permissions are denied by default: a method names the roles that may call it, and there is no way
to declare a method without doing so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from stele.errors import InvalidArgument, PermissionDenied, Unauthenticated

URI_SCHEME = "stele"
ANY_CLUSTER = "*"
NAME_CHARS_MAX = 256


class Role(enum.StrEnum):
    """The parts a process can play. Each has certificates of its own."""

    CLIENT = "client"
    TABLET = "tablet"
    MASTER = "master"
    METASTORE = "metastore"
    ADMIN = "admin"


SERVERS = frozenset({Role.TABLET, Role.MASTER, Role.METASTORE})
"""Roles a client accepts at the other end unless it asks for one in particular."""

EVERYONE = frozenset(Role)

_ROLES_BY_NAME = {str(role): role for role in Role}


class Proof(enum.StrEnum):
    """What stands behind a peer's identity."""

    CERTIFICATE = "certificate"
    KERNEL = "kernel"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """The other end of a connection, or the caller whom it forwards."""

    roles: frozenset[Role]
    name: str
    proof: Proof
    cluster: str = ANY_CLUSTER
    serial: str = ""

    def __str__(self) -> str:
        roles = "+".join(sorted(self.roles))
        return f"{roles}/{self.name or '?'} (by {self.proof})"


@dataclass(frozen=True, slots=True)
class Permission:
    """What a method demands of its caller. `action` is the name shown in audits and refusals."""

    action: str
    roles: frozenset[Role]

    def admits(self, identity: PeerIdentity) -> bool:
        """Whether one of the caller's roles is allowed."""
        return not self.roles.isdisjoint(identity.roles)

    def denial(self, identity: PeerIdentity, method: str) -> PermissionDenied:
        """What a caller is told that is not admitted."""
        return PermissionDenied(f"{identity} may not call {method}: it needs {self.action}")


def allow(action: str, *roles: Role) -> Permission:
    """The permission that lets exactly these roles perform `action`."""
    if not action or not roles:
        raise InvalidArgument(
            f"permission {action!r} for {len(roles)} roles: name the action and at least one role"
        )
    return Permission(action, frozenset(roles))


def parse_roles(names: Iterable[str]) -> frozenset[Role]:
    """Roles from their names. One that is not known is refused: it cannot be allowed anything."""
    roles = set()
    for name in names:
        if name not in _ROLES_BY_NAME:
            raise Unauthenticated(f"unknown role {name[:NAME_CHARS_MAX]!r}")
        roles.add(_ROLES_BY_NAME[name])
    if not roles:
        raise Unauthenticated("the peer names no role")
    return frozenset(roles)


def identity_uri(cluster: str, role: Role, name: str) -> str:
    """The URI that a certificate of this holder carries."""
    return f"{URI_SCHEME}://{cluster}/{role}/{name}"


def identity_from_uris(uris: Iterable[str], serial: str) -> PeerIdentity:
    """The holder of a certificate with these URIs; those of other schemes are not ours."""
    holders = [_parse_uri(uri) for uri in uris if uri.startswith(f"{URI_SCHEME}:")]
    if not holders:
        raise Unauthenticated(f"certificate {serial} carries no {URI_SCHEME}: URI")
    clusters = {cluster for cluster, _, _ in holders}
    names = {name for _, _, name in holders}
    if len(clusters) != 1 or len(names) != 1:
        raise Unauthenticated(f"certificate {serial} speaks for more than one holder")
    return PeerIdentity(
        roles=parse_roles(role for _, role, _ in holders),
        name=names.pop(),
        proof=Proof.CERTIFICATE,
        cluster=clusters.pop(),
        serial=serial,
    )


def _parse_uri(uri: str) -> tuple[str, str, str]:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise Unauthenticated(f"identity {uri[:NAME_CHARS_MAX]!r}: {error}") from error
    steps = parts.path.split("/")
    if len(steps) != 3 or steps[0] or not all(steps[1:]) or not parts.netloc or parts.query:
        raise Unauthenticated(
            f"identity {uri[:NAME_CHARS_MAX]!r} is not {URI_SCHEME}://cluster/role/name"
        )
    name = unquote(steps[2])
    if len(name) > NAME_CHARS_MAX:
        raise Unauthenticated(f"the name in a certificate has more than {NAME_CHARS_MAX} letters")
    return parts.netloc, steps[1], name


def clusters_agree(one: str, other: str) -> bool:
    """Whether two cluster names may talk; an empty one or `*` says nothing."""
    return one == other or bool({one, other} & {"", ANY_CLUSTER})


def admit(
    role: str, name: str, cluster: str, certified: PeerIdentity | None, proof: Proof
) -> PeerIdentity:
    """Who says hello. A certificate beats the claim, and the claim must not go beyond it."""
    claimed = parse_roles([role])
    if certified is None:
        return PeerIdentity(claimed, name, proof, cluster or ANY_CLUSTER)
    if not claimed <= certified.roles:
        raise Unauthenticated(f"the peer says {role}, its certificate says {certified}")
    if not clusters_agree(cluster, certified.cluster):
        raise Unauthenticated(
            f"the peer says cluster {cluster!r}, its certificate says {certified.cluster!r}"
        )
    return certified
