"""Whether a node still belongs to its group.

A member that is removed is not sent the entry that removes it, or anything after it: for its own
log it is a voter still, and asks for votes. Those who are members tell it then. What they say is a
fact of the log, "up to this index it is decided that you are not among us", so it can be compared
with what the node has itself, whoever is behind:

    told index  >=  index of the newest membership here      the removal came later: it is out
    told index  <   that                                      who says so has yet to hear of us

So a member that lags does not send a newcomer away, and who is added again is in again as soon as
its log says so. A leader that removes itself has its own removal in the log.

All of this is for people and clients. Consensus does not rest on it: what keeps a removed node from
disturbing the group are the rules of elections.
"""

from __future__ import annotations

from stele.errors import NotLeader
from stele.raft import RaftCore


class Standing:
    """What one node knows of its own place, and of those who ask as if they had one."""

    __slots__ = ("_core", "_node", "_told_at", "_told_by", "removed_at")

    def __init__(self, core: RaftCore, node: int) -> None:
        self._core = core
        self._node = node
        self._told_at = 0
        self._told_by = ""
        self.removed_at = 0
        """The index at which this node is known to be out of its group; 0 while it is not."""
        self.look()

    def look(self) -> None:
        """The log may have moved on."""
        core = self._core
        told = self._told_at if self._told_at >= core.membership_index else 0
        known = core.removed_at if core.removed_at <= core.commit else 0
        self.removed_at = known or told

    def told(self, index: int, address: str) -> None:
        """The member at ``address`` says that this node is out, as of ``index``."""
        self.look()
        if not self.removed_at:
            self._told_at, self._told_by = index, address
            self.look()

    def word_for(self, node: int) -> int:
        """The index up to which it is decided that another node, which speaks as a member, is none;
        0 if that cannot be said."""
        core = self._core
        members = core.membership.members
        if node in members or self._node not in members:
            return 0
        return core.commit if core.membership_index <= core.commit else 0

    def refusal(self) -> NotLeader:
        """Why this node serves nobody, and who may."""
        return NotLeader(
            f"node {self._node} is no member of its group: it was removed, as of index "
            f"{self.removed_at}",
            leader=self._told_by or self._somebody(),
        )

    def _somebody(self) -> str | None:
        return next(iter(self._core.membership.addresses.values()), None)
