"""Which part of the log is on its way to disk, and which has arrived.

The host writes in the order of the Readys it was given and reports with their numbers: all writes
up to number N are durable. Writes may be under way while the log moves on, so a report can be about
entries that have been overwritten since. An index and a term would not tell: the same pair may be
written, overwritten and written again. A number does. When the log is cut at an index, every write
under way is cut there too, so a late report can only ever vouch for what is still the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _Write:
    number: int
    last_index: int
    term: int


class WriteLedger:
    """Invariant: ``persisted <= offered``, but for a snapshot whose installation is under way."""

    __slots__ = ("_under_way", "durable_term", "offered", "persisted")

    def __init__(self, last_index: int, term: int) -> None:
        self.offered = last_index
        """The last entry given to the host for writing."""

        self.persisted = last_index
        """The last entry of the present log that is known to be durable, with all before it."""

        self.durable_term = term
        """The term of the newest durable hard state."""

        self._under_way: deque[_Write] = deque()

    @property
    def idle(self) -> bool:
        """Nothing is under way."""
        return not self._under_way

    def begin(self, number: int, last_index: int, term: int) -> None:
        """Ready ``number`` was given out; with it the log is written up to ``last_index``."""
        self.offered = last_index
        self._under_way.append(_Write(number, last_index, term))

    def acknowledge(self, number: int) -> None:
        """Everything up to Ready ``number`` is durable."""
        while self._under_way and self._under_way[0].number <= number:
            write = self._under_way.popleft()
            self.durable_term = write.term
            self.persisted = max(self.persisted, write.last_index)

    def truncate(self, first: int) -> None:
        """The entries from ``first`` on were replaced: nothing vouches for them any more."""
        last = first - 1
        self.offered = min(self.offered, last)
        self.persisted = min(self.persisted, last)
        for write in self._under_way:
            write.last_index = min(write.last_index, last)

    def restart_at(self, index: int) -> None:
        """A snapshot took the place of the whole log. Until it is durable, nothing is."""
        self.truncate(1)
        self.offered = index
