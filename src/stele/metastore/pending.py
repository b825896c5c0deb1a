"""Requests that wait for their entry to be applied.

A proposal is known by the index and the term at which the leader appended it. It took effect if and
only if the entry applied at that index has that term; any other entry there means that it was
overwritten and never will. Leadership lost in between leaves the outcome open: the entry may be
committed by the next leader, or vanish. Waiting for that could take as long as a partition, so the
requests are given up at once as ``OutcomeUnknown``, and the client finds out by asking again.
"""

from __future__ import annotations

from collections.abc import Sequence

from stele.errors import OutcomeUnknown, Unavailable
from stele.metastore.commands import Effects
from stele.metastore.outbox import Outbox
from stele.raft import Entry, Proposed


class PendingWrites:
    """By index, in the order of proposing."""

    __slots__ = ("_out", "_waiting")

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._waiting: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, proposed: Proposed, requests: Sequence[int]) -> None:
        """The requests became the entries that ``proposed`` tells of, in their order."""
        assert proposed.last_index - proposed.first_index + 1 == len(requests)
        for offset, request in enumerate(requests):
            self._waiting[proposed.first_index + offset] = (proposed.term, request)

    def settle(self, entries: Sequence[Entry], effects: Sequence[Effects]) -> None:
        """Entries were applied: answer whoever waits for them."""
        waiting = self._waiting
        if not waiting:
            return
        for entry, effect in zip(entries, effects, strict=True):
            found = waiting.pop(entry.index, None)
            if found is None:
                continue
            term, request = found
            if term == entry.term:
                self._out.answer(request, effect.answer)
            else:
                lost = Unavailable("the entry was overwritten by a later leader's")
                self._out.refuse(request, lost)

    def abandon(self) -> None:
        """Leadership is lost: nobody here will learn soon what becomes of them."""
        lost = OutcomeUnknown("leadership was lost while the entry was on its way")
        for _, request in self._waiting.values():
            self._out.refuse(request, lost)
        self._waiting.clear()
