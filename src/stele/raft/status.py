"""A look inside a node, for people and metrics. Nothing decides by it."""

from __future__ import annotations

import msgspec

from stele.raft.membership import Membership
from stele.raft.progress import Progress
from stele.raft.state import RaftState


class PeerStatus(msgspec.Struct, frozen=True):
    """A leader's view of one member."""

    node: int
    state: str
    match: int
    next: int
    inflight_bytes: int
    pending_snapshot: int
    recently_active: bool


class Status(msgspec.Struct, frozen=True):
    """One node, at one moment."""

    node: int
    role: str
    term: int
    vote: int
    leader: int
    commit: int
    applied: int
    persisted: int
    first_index: int
    last_index: int
    membership: Membership
    uncommitted_bytes: int
    transfer_target: int
    abstains: bool
    peers: tuple[PeerStatus, ...]


def describe(s: RaftState) -> Status:
    """The present status of a node."""
    log = s.log
    return Status(
        node=s.id,
        role=s.role.value,
        term=s.term,
        vote=s.vote,
        leader=s.leader,
        commit=log.commit,
        applied=log.applied,
        persisted=log.ledger.persisted,
        first_index=log.first_index,
        last_index=log.last_index,
        membership=log.membership,
        uncommitted_bytes=s.uncommitted_bytes,
        transfer_target=s.transfer_target,
        abstains=s.abstains,
        peers=tuple(_describe_peer(node, progress) for node, progress in s.peers.items()),
    )


def _describe_peer(node: int, progress: Progress) -> PeerStatus:
    return PeerStatus(
        node=node,
        state=progress.state.value,
        match=progress.match,
        next=progress.next,
        inflight_bytes=progress.inflight.bytes_total,
        pending_snapshot=progress.pending_snapshot,
        recently_active=progress.recently_active,
    )
