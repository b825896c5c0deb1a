"""What operators ask of one node of a metastore, for itself: to begin, and to step back.

Unlike all else that is asked of a metastore, these are not for whoever leads: they go to the node
they are about and are never passed on.
"""

from __future__ import annotations

import msgspec

from stele.rpc import Role, Service, allow

MEMBER = Service("metastore-member", 4)

_ADMIN = allow("metastore.admin", Role.ADMIN, Role.MASTER, Role.METASTORE)


class DrainRequest(msgspec.Struct, frozen=True):
    """Leave leading to others until this node starts again, or until ``undo``; a leader hands over
    first. Refused if the node is not ``node``, or the only voter."""

    node: int
    undo: bool = False


class DrainResponse(msgspec.Struct, frozen=True):
    """Who leads now; 0 while that is not known."""

    leader: int


class BootstrapRequest(msgspec.Struct, frozen=True):
    """Found a group with this node as its first member, or join the group of the nodes at ``join``.
    Refused by a node that belongs to a group already."""

    join: tuple[str, ...] = ()


class BootstrapResponse(msgspec.Struct, frozen=True):
    """Which group the node belongs to from now on, and its number there."""

    cluster: str
    node: int


DRAIN = MEMBER.unary("drain", 1, request=DrainRequest, response=DrainResponse, permission=_ADMIN)
BOOTSTRAP = MEMBER.unary(
    "bootstrap", 2, request=BootstrapRequest, response=BootstrapResponse, permission=_ADMIN
)
