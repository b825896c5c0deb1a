"""Which node of a metastore to ask next. Pure: addresses and outcomes in, an address out.

One node leads and answers; the others say who does, if they know. A client keeps asking the node
that answered last. When that one fails, or says that it does not lead, the client follows the hint,
or goes round the nodes it knows. The round goes on where it was, wherever hints have led in
between: a hint may be stale, and two nodes, one that is gone and one that keeps naming it, must not
hide a third. Many requests share one route, so an outcome counts only while the
node it is about is still the one that is asked: sixty-four requests that lose the same connection
move the route on by one node, not by sixty-four.
"""

from __future__ import annotations

from collections.abc import Iterable

from stele.errors import InvalidArgument

ADDRESSES_MAX = 64
"""Nodes a client remembers; a group has seven at most, and hints may be stale."""


class Route:
    """The nodes that are known, and the one that is asked."""

    def __init__(self, seeds: Iterable[str]) -> None:
        self._addresses = list(dict.fromkeys(seeds))
        if not self._addresses:
            raise InvalidArgument("a metastore needs at least one address, such as 127.0.0.1:7420")
        self._seeds = len(self._addresses)
        self.current = self._addresses[0]
        self._turn = 0

    @property
    def addresses(self) -> tuple[str, ...]:
        """All nodes that are known, in the order of asking."""
        return tuple(self._addresses)

    def learn(self, addresses: Iterable[str]) -> None:
        """Remember more nodes, if need be in the place of those that were learned first."""
        for address in addresses:
            if address not in self._addresses and self._make_room():
                self._addresses.append(address)

    def _make_room(self) -> bool:
        """Whether one more can be remembered now. Nodes move, and a client may outlive all that it
        has ever learned; but the seeds were given for good, and the one that is asked is needed."""
        if len(self._addresses) < ADDRESSES_MAX:
            return True
        for place in range(self._seeds, len(self._addresses)):
            if self._addresses[place] != self.current:
                del self._addresses[place]
                self._turn -= place <= self._turn
                return True
        return False

    def failed(self, address: str) -> None:
        """A node did not answer: ask the next of the round."""
        if address != self.current:
            return
        for _ in self._addresses:
            self._turn = (self._turn + 1) % len(self._addresses)
            self.current = self._addresses[self._turn]
            if self.current != address:
                return

    def redirected(self, address: str, leader: str | None) -> bool:
        """A node does not lead. Whether there is somebody else to ask at once."""
        if address != self.current:
            return True
        if not leader or leader == address or ":" not in leader:
            # It knows nobody, or one that has left the group and taken its address along.
            self.failed(address)
            return False
        self.learn([leader])
        if leader not in self._addresses:
            self.failed(address)
            return False
        self.current = leader
        return True
