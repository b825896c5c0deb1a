"""Linearizable reads without log entries: rounds of heartbeats serve batches of reads.

A leader may answer a read from its commit index if it is still the leader at some moment after the
read was asked (§6.4 of the dissertation). It learns that from one round: a majority answers a
heartbeat that was sent after the read arrived. All reads that wait when a round begins share it.
One round is under way at a time, unless a regular heartbeat opens the next; the answer to a later
round confirms the earlier ones.

The numbers of rounds grow within a term, and answers carry the term, so an old answer can never
confirm a read that was asked after it was given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from stele.raft.quorum import majority_reached


class PendingRead(NamedTuple):
    """A read and who asked: this node, or a follower that forwarded it."""

    origin: int
    nonce: int
    context: int


class ConfirmedReads(NamedTuple):
    """Reads that may be served from ``at_index`` on."""

    at_index: int
    reads: tuple[PendingRead, ...]


class _Round(NamedTuple):
    number: int
    confirmed: ConfirmedReads


class ReadRounds:
    """The reads of one leader in one term."""

    __slots__ = ("_answered", "_open", "latest", "waiting")

    def __init__(self) -> None:
        self.waiting: list[PendingRead] = []
        """Asked, but no round has begun for them."""

        self.latest = 0
        """The number of the newest round; heartbeats carry it."""

        self._open: deque[_Round] = deque()
        self._answered: dict[int, int] = {}

    @property
    def under_way(self) -> bool:
        """A round has begun and is not confirmed."""
        return bool(self._open)

    def __len__(self) -> int:
        return len(self.waiting) + sum(len(item.confirmed.reads) for item in self._open)

    def begin(self, commit: int) -> None:
        """All waiting reads join a new round; they will read at ``commit`` or later."""
        self.latest += 1
        self._open.append(_Round(self.latest, ConfirmedReads(commit, tuple(self.waiting))))
        self.waiting.clear()

    def answer(self, node: int, number: int) -> None:
        """``node`` answered the heartbeat of round ``number``."""
        self._answered[node] = max(self._answered.get(node, 0), number)

    def confirm(self, voters: Sequence[int], leader: int) -> list[ConfirmedReads]:
        """Take the rounds that a majority of ``voters`` has answered; the leader always agrees."""
        self._answered[leader] = self.latest
        if not self._open:
            return []
        reached = majority_reached(voters, lambda voter: self._answered.get(voter, 0))
        done: list[ConfirmedReads] = []
        while self._open and self._open[0].number <= reached:
            done.append(self._open.popleft().confirmed)
        return done

    def drain(self) -> list[PendingRead]:
        """Give up all reads: leadership is lost."""
        left = [read for item in self._open for read in item.confirmed.reads] + self.waiting
        self._open.clear()
        self.waiting = []
        return left


class ForwardedReads:
    """The reads a follower passes on to its leader."""

    __slots__ = ("nonce", "outstanding", "unsent")

    def __init__(self, nonce: int) -> None:
        self.nonce = nonce
        """Tells this life of the node from its earlier ones."""

        self.unsent: list[int] = []
        self.outstanding: dict[int, bool] = {}
        """Contexts that were sent, in order; the values are all True."""

    def take_unsent(self, outstanding_max: int) -> tuple[int, ...]:
        """The contexts of the next request. Of those that were sent the oldest are forgotten beyond
        the limit: their messages were lost, and whoever waited has asked again since."""
        contexts = tuple(self.unsent)
        self.unsent.clear()
        self.outstanding.update(dict.fromkeys(contexts, True))
        while len(self.outstanding) > outstanding_max:
            del self.outstanding[next(iter(self.outstanding))]
        return contexts

    def answered(self, nonce: int, contexts: Sequence[int]) -> list[int]:
        """Which of ``contexts`` are ours and still wait."""
        if nonce != self.nonce:
            return []
        # A doubled request brings a doubled answer; only the first one counts.
        return [context for context in contexts if self.outstanding.pop(context, False)]

    def drain(self) -> list[int]:
        """Give up all of them: the leader they went to is gone."""
        left = [*self.outstanding, *self.unsent]
        self.outstanding.clear()
        self.unsent.clear()
        return left
