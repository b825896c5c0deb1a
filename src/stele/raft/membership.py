"""Who belongs to the group, and how that changes: one voter at a time.

A membership is a value. Its voters elect and commit; its learners only receive the log, so that a
newcomer can catch up without weakening any quorum (§4.2.1 of the dissertation). Addresses are part
of it: the log is then the only source for who is where.

Adding or removing a single voter keeps every majority of the old membership overlapping every
majority of the new one (§4.1). So no joint phase is needed, and a node may use the newest
membership in its log, committed or not. If the entry is overwritten later, the one before holds
again; ``MembershipHistory`` keeps the steps for that.
"""

from __future__ import annotations

import bisect

import msgspec

from stele.errors import AlreadyExists, Corruption, InvalidArgument, NotFound


class Membership(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Ids are positive, in ascending order, and no node is both voter and learner."""

    voters: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()
    addresses: dict[int, str] = {}

    def __post_init__(self) -> None:
        for name, ids in (("voters", self.voters), ("learners", self.learners)):
            if any(a >= b for a, b in zip((0, *ids), ids, strict=False)):
                raise InvalidArgument(f"{name} {list(ids)} must be positive and strictly ascending")
        both = set(self.voters) & set(self.learners)
        if both:
            raise InvalidArgument(f"nodes {sorted(both)} are voters and learners at once")

    @property
    def members(self) -> tuple[int, ...]:
        """Voters, then learners."""
        return self.voters + self.learners

    def address_of(self, node: int) -> str | None:
        """Where ``node`` listens; None for one that has left, or never said so: nobody can be sent
        there."""
        return self.addresses.get(node)

    def encode(self) -> bytes:
        """The payload of a membership entry; equal values give equal bytes."""
        ordered = Membership(self.voters, self.learners, dict(sorted(self.addresses.items())))
        return msgspec.msgpack.encode(ordered)


_MEMBERSHIP = msgspec.msgpack.Decoder(Membership)


def decode_membership(data: bytes) -> Membership:
    """Read the payload of a membership entry."""
    try:
        return _MEMBERSHIP.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidArgument) as error:
        raise Corruption(f"membership entry cannot be read: {error}") from error


class AddLearner(msgspec.Struct, frozen=True, tag="add-learner"):
    """A newcomer starts to receive the log; it does not vote yet."""

    node: int
    address: str = ""


class Promote(msgspec.Struct, frozen=True, tag="promote"):
    """A learner that has caught up becomes a voter."""

    node: int


class Remove(msgspec.Struct, frozen=True, tag="remove"):
    """A voter or learner leaves for good. Its id should never be used again."""

    node: int


class Relocate(msgspec.Struct, frozen=True, tag="relocate"):
    """A member listens somewhere else from now on."""

    node: int
    address: str


Change = AddLearner | Promote | Remove | Relocate


def apply_change(old: Membership, change: Change) -> Membership:
    """The membership after ``change``, or a typed refusal that names the node."""
    match change:
        case AddLearner(node, address):
            return _add_learner(old, node, address)
        case Promote(node):
            return _promote(old, node)
        case Remove(node):
            return _remove(old, node)
    _require_member(old, change.node)
    return Membership(old.voters, old.learners, {**old.addresses, change.node: change.address})


def _require_member(membership: Membership, node: int) -> None:
    if node not in membership.members:
        raise NotFound(f"node {node} is not a member of {list(membership.members)}")


def _add_learner(old: Membership, node: int, address: str) -> Membership:
    if node < 1:
        raise InvalidArgument(f"node id {node} must be positive")
    if node in old.members:
        raise AlreadyExists(f"node {node} is a member already")
    addresses = {**old.addresses, node: address} if address else old.addresses
    return Membership(old.voters, tuple(sorted((*old.learners, node))), addresses)


def _promote(old: Membership, node: int) -> Membership:
    _require_member(old, node)
    if node in old.voters:
        raise AlreadyExists(f"node {node} is a voter already")
    learners = tuple(learner for learner in old.learners if learner != node)
    return Membership(tuple(sorted((*old.voters, node))), learners, old.addresses)


def _remove(old: Membership, node: int) -> Membership:
    _require_member(old, node)
    if old.voters == (node,):
        raise InvalidArgument(f"node {node} is the last voter and cannot be removed")
    return Membership(
        tuple(voter for voter in old.voters if voter != node),
        tuple(learner for learner in old.learners if learner != node),
        {known: address for known, address in old.addresses.items() if known != node},
    )


class MembershipHistory:
    """The memberships of the kept log, by the index of their entries.

    Invariant: indices ascend, and all lie above the start of the log, where ``_base`` holds.
    """

    __slots__ = ("_base", "_indices", "_memberships", "current")

    def __init__(self, base: Membership) -> None:
        self._base = base
        self._indices: list[int] = []
        self._memberships: list[Membership] = []
        self.current = base
        """The newest membership in the log: the one to use (§4.1)."""

    @property
    def current_index(self) -> int:
        """The entry that brought the current membership; 0 when it came with the snapshot."""
        return self._indices[-1] if self._indices else 0

    def record(self, index: int, membership: Membership) -> None:
        """A membership entry was appended at ``index``."""
        assert index > self.current_index
        self._indices.append(index)
        self._memberships.append(membership)
        self.current = membership

    def truncate(self, first: int) -> None:
        """Entries from ``first`` on were overwritten: the membership before them holds again."""
        keep = bisect.bisect_left(self._indices, first)
        del self._indices[keep:]
        del self._memberships[keep:]
        self.current = self._memberships[-1] if self._memberships else self._base

    def compact(self, index: int) -> None:
        """The log now begins after ``index``."""
        self._base = self.at(index)
        gone = bisect.bisect_right(self._indices, index)
        del self._indices[:gone]
        del self._memberships[:gone]

    def left_at(self, node: int) -> int:
        """The entry that took ``node`` out of the group; 0 while it belongs to it, or if it was no
        member as far as this log reaches back."""
        if node in self.current.members:
            return 0
        before = [self._base, *self._memberships]
        for step in reversed(range(len(self._indices))):
            if node in before[step].members:
                return self._indices[step]
        return 0

    def at(self, index: int) -> Membership:
        """The membership that held when ``index`` was the last entry of the log."""
        known = bisect.bisect_right(self._indices, index)
        return self._memberships[known - 1] if known else self._base
