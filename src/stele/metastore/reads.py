"""Linearizable reads, and the renewals of sessions, on their way through a round of heartbeats.

    asked ──one context for all of a turn──▶ in a round ──confirmed──▶ until applied ──▶ served
      ▲                                          │
      └───── the leader changed, or no answer ───┘

All that was asked within one turn shares one context, so the core's cost does not grow with the
number of readers. A confirmed read waits until the state machine has reached its index. A follower
hears of its round through messages, which may be lost: after a while it asks again.

Renewals (KeepAlives) take the same way, because they too claim that this node leads *now*; they end
with the leader that took them, where reads simply ask the next one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from stele.metastore.events import KeepAlive, ServeReads


@dataclass(slots=True)
class Round:
    """What shares one context."""

    reads: list[int] = field(default_factory=list)
    renewals: list[KeepAlive] = field(default_factory=list)
    age_ticks: int = 0


class WaitingReads:
    """Every read and renewal is in exactly one place, or gone."""

    __slots__ = ("_confirmed", "_context", "_rounds", "_sequence", "asked")

    def __init__(self) -> None:
        self.asked = Round()
        """Not in a round yet."""

        self._rounds: dict[int, Round] = {}
        self._confirmed: list[tuple[int, int, Round]] = []
        self._context = 0
        self._sequence = 0

    @property
    def wants_round(self) -> bool:
        """Whether somebody waits to be taken along."""
        return bool(self.asked.reads or self.asked.renewals)

    @property
    def has_confirmed(self) -> bool:
        """Whether somebody waits for nothing but the state."""
        return bool(self._confirmed)

    def begin(self) -> int:
        """Whoever has asked joins a round; its context, for the core."""
        self._context += 1
        self._rounds[self._context] = self.asked
        self.asked = Round()
        return self._context

    def confirm(self, context: int, index: int) -> None:
        """The round's reads may be served at ``index`` or later."""
        found = self._rounds.pop(context, None)
        if found is not None:
            self._sequence += 1
            heapq.heappush(self._confirmed, (index, self._sequence, found))

    def abort(self, context: int) -> list[KeepAlive]:
        """The leader changed: the reads ask again, the renewals are given back."""
        found = self._rounds.pop(context, None)
        if found is None:
            return []
        self.asked.reads.extend(found.reads)
        return found.renewals

    def tick(self, age_ticks_max: int) -> list[KeepAlive]:
        """Time passes at a follower: rounds that got no answer begin again."""
        late = []
        for context, item in self._rounds.items():
            item.age_ticks += 1
            if item.age_ticks > age_ticks_max:
                late.append(context)
        return [renewal for context in late for renewal in self.abort(context)]

    def take_served(self, applied: int) -> list[tuple[ServeReads, list[KeepAlive]]]:
        """What may be answered by a state that has applied so far."""
        served = []
        while self._confirmed and self._confirmed[0][0] <= applied:
            index, _, item = heapq.heappop(self._confirmed)
            served.append((ServeReads(tuple(item.reads), index), item.renewals))
        return served

    def give_up_asked(self) -> Round:
        """There is no leader to ask: everything that has no round yet."""
        given_up, self.asked = self.asked, Round()
        return given_up

    def drain(self) -> list[int]:
        """Give up everything, renewals too: the numbers of all requests."""
        places = [self.asked, *self._rounds.values(), *(item for _, _, item in self._confirmed)]
        self.asked = Round()
        self._rounds.clear()
        self._confirmed.clear()
        renewals = [renewal.request for place in places for renewal in place.renewals]
        return [read for place in places for read in place.reads] + renewals
