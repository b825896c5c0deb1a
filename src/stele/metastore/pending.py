"""Requests that wait for their entry to be applied.

A proposal is known by the index and the term at which the leader appended it. It took effect if and
only if the entry applied at that index has that term; any other entry there means that it was
overwritten and never will. Leadership lost in between leaves the outcome open: the entry may be
committed by the next leader, or vanish. Waiting for that could take as long as a partition, so the
requests are given up at once as ``OutcomeUnknown``, and the client finds out by asking again.

A request may be one entry or a row of them. What is applied at once covers whole rows nearly
always, so rows are looked at, not entries: terms never fall along a log, and if the first and the
last entry of a row have its term, so have those between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from stele.errors import OutcomeUnknown, Unavailable
from stele.metastore.commands import Answer, Effects
from stele.metastore.outbox import Outbox
from stele.raft import Entry, Proposed


class _Row(msgspec.Struct, gc=False):
    """A request that became the entries up to ``last``; those before ``next`` are applied."""

    request: int
    term: int
    next: int
    last: int
    answers: list[Answer | None] | None
    """None for a request that is one entry and wants one answer."""


class PendingWrites:
    """By index, in the order of proposing."""

    __slots__ = ("_out", "_rows")

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._rows: deque[_Row] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, proposed: Proposed, requests: Iterable[tuple[int, int | None]]) -> None:
        """The requests became the entries that ``proposed`` tells of, in their order. Each comes
        with its number of entries; None is one entry, and one answer instead of a list."""
        first = proposed.first_index
        for request, count in requests:
            last = first + (count or 1) - 1
            answers: list[Answer | None] | None = None if count is None else []
            self._rows.append(_Row(request, proposed.term, first, last, answers))
            first = last + 1
        assert first == proposed.last_index + 1, "more entries or fewer than were asked for"

    def settle(self, entries: Sequence[Entry], effects: Sequence[Effects]) -> None:
        """Entries were applied: answer whoever waits for them."""
        begin, end = entries[0].index, entries[-1].index
        rows = self._rows
        while rows and rows[0].next <= end:
            row = rows[0]
            start, stop = row.next - begin, min(row.last, end) - begin + 1
            if start < 0 or entries[start].term != row.term or entries[stop - 1].term != row.term:
                lost = Unavailable("the entry was overwritten by a later leader's")
                self._out.refuse(rows.popleft().request, lost)
                continue
            row.next = begin + stop
            if row.answers is None:
                self._out.answer(rows.popleft().request, effects[start].answer)
                continue
            row.answers += [effect.answer for effect in effects[start:stop]]
            if row.next > row.last:
                self._out.answer(rows.popleft().request, row.answers)

    def abandon(self) -> None:
        """Leadership is lost: nobody here will learn soon what becomes of them."""
        lost = OutcomeUnknown("leadership was lost while the entry was on its way")
        for row in self._rows:
            self._out.refuse(row.request, lost)
        self._rows.clear()
