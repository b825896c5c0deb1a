"""Handing leadership over (§3.10 of the dissertation).

The leader stops taking proposals, brings the target up to its own last entry, and tells it to stand
for election at once. If that does not succeed within an election timeout, it goes on as before; a
message that still arrives then only causes an election, which is safe at any time.
"""

from __future__ import annotations

from stele.errors import InvalidArgument, Unavailable
from stele.raft.entries import NOBODY
from stele.raft.replication import offer_leadership
from stele.raft.state import RaftState


def transfer_leadership(s: RaftState, target: int) -> None:
    """Begin, or begin again with another target."""
    s.require_leader()
    if target not in s.membership.voters:
        raise InvalidArgument(f"node {target} is not a voter of {list(s.membership.voters)}")
    if target != s.id and target != s.transfer_target:
        s.transfer_target = target
        s.transfer_elapsed = 0
        offer_leadership(s)


def tick_transfer(s: RaftState) -> None:
    """Give up after an election timeout."""
    if s.transfer_target != NOBODY:
        s.transfer_elapsed += 1
        if s.transfer_elapsed >= s.config.election_ticks:
            s.transfer_target = NOBODY


def refuse_during_transfer(s: RaftState) -> None:
    """New entries would keep the target behind for ever."""
    if s.transfer_target != NOBODY:
        raise Unavailable(f"leadership is being handed to node {s.transfer_target}")
