"""The log of one node: entries in memory from the last compaction on, and the marks upon it.

    base ............ applied .... handed ...... commit ......... last
    (compacted away)                     persisted ^ (anywhere above handed)

- ``applied``: the state machine holds the effects, as the host reported.
- ``handed``: given to the host for applying.
- ``commit``: known to be decided (§3.5, §3.6 of the dissertation).
- ``persisted``: durable here (``ledger``).

An entry is handed out only when it is both committed and durable here. A node may learn that an
entry is committed before its own disk has it; applying it then would let the state machine run
ahead of the log across a crash, and a group of one would acknowledge what it can still lose.

The whole kept log stays in memory: the host bounds it by compacting, and no read from disk can ever
delay a message. Terms never fall along the log, which makes the search for a common point a binary
one.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from stele.errors import Corruption, InvalidArgument
from stele.raft.entries import Entry, EntryKind, Snapshot, StoredState, size_of, size_of_all
from stele.raft.ledger import WriteLedger
from stele.raft.membership import Membership, MembershipHistory, decode_membership

COUNTED_TOGETHER_MAX = 512
"""Entries that are probably few enough for one message: first seen as a whole, not one by one."""


class RaftLog:
    """Invariant: ``base_index <= handed <= commit <= last_index``."""

    __slots__ = (
        "_entries",
        "applied",
        "base_index",
        "base_term",
        "commit",
        "handed",
        "history",
        "last_index",
        "ledger",
    )

    def __init__(self, stored: StoredState) -> None:
        snapshot = stored.snapshot
        self.base_index = snapshot.index
        self.base_term = snapshot.term
        self.history = MembershipHistory(snapshot.membership)
        self._entries: list[Entry] = []
        self.last_index = snapshot.index
        self.append(stored.entries)
        self.applied = self.handed = stored.applied
        self.commit = max(stored.hard_state.commit, self.applied)
        self.ledger = WriteLedger(self.last_index, stored.hard_state.term)

    @property
    def first_index(self) -> int:
        """The first entry that is still kept."""
        return self.base_index + 1

    @property
    def last_term(self) -> int:
        """The term of the last entry."""
        return self._entries[-1].term if self._entries else self.base_term

    @property
    def membership(self) -> Membership:
        """The newest membership in the log, committed or not (§4.1)."""
        return self.history.current

    def term_at(self, index: int) -> int | None:
        """The term of the entry at ``index``; None where the log does not reach or is compacted."""
        offset = index - self.base_index
        if 0 < offset <= len(self._entries):
            return self._entries[offset - 1].term
        return self.base_term if offset == 0 else None

    def matches(self, index: int, term: int) -> bool:
        """Whether the log holds this very entry, and so the same log before it (§3.5)."""
        return self.term_at(index) == term

    def slice(self, first: int, last: int, bytes_max: int) -> tuple[Entry, ...]:
        """Entries from ``first`` to ``last``: one at least if there is one, then what fits."""
        assert first > self.base_index
        start = stop = first - self.base_index - 1
        end = last - self.base_index
        entries = self._entries
        if end - start <= COUNTED_TOGETHER_MAX:
            few = entries[start:end]
            if size_of_all(few) <= bytes_max:
                return tuple(few)
        total = 0
        while stop < end:
            total += size_of(entries[stop])
            if total > bytes_max and stop > start:
                break
            stop += 1
        return tuple(entries[start:stop])

    def bytes_between(self, after: int, upto: int) -> int:
        """The size of the entries above ``after``, up to and with ``upto``."""
        start, stop = after - self.base_index, upto - self.base_index
        return size_of_all(self._entries[start:stop])

    def append(self, entries: Sequence[Entry]) -> None:
        """Put entries at the end."""
        for entry in entries:
            assert entry.index == self.last_index + 1
            self._entries.append(entry)
            self.last_index = entry.index
            if entry.kind is EntryKind.MEMBERSHIP:
                self.history.record(entry.index, decode_membership(entry.data))

    def merge(self, prev_index: int, entries: Sequence[Entry]) -> int:
        """Take over a leader's entries after a matching ``prev_index``; the last index they cover.

        Only a real conflict cuts the log. Entries that are already here stay, and so do those
        behind them: the message may be an old one, and what follows may be acknowledged (§3.5).
        """
        conflict = self.first_difference(entries)
        if conflict < len(entries):
            first = entries[conflict].index
            if first <= self.last_index:
                self._truncate(first)
            self.append(entries[conflict:])
        return prev_index + len(entries)

    def first_difference(self, entries: Sequence[Entry]) -> int:
        """The position of the first entry that is not in the log as it stands."""
        for position, entry in enumerate(entries):
            if not self.matches(entry.index, entry.term):
                return position
        return len(entries)

    def _truncate(self, first: int) -> None:
        assert first > self.commit, f"cut at {first}, committed is {self.commit}"
        del self._entries[first - self.base_index - 1 :]
        self.last_index = first - 1
        self.history.truncate(first)
        self.ledger.truncate(first)

    def last_not_above(self, index: int, term: int) -> int:
        """The last entry at or before ``index`` whose term is not above ``term``.

        If two logs share an entry at or before ``index`` with a term up to ``term``, they share
        none after this one. Below the kept log the answer is its start at best.
        """
        index = min(index, self.last_index)
        if index <= self.base_index:
            return index
        upto = index - self.base_index
        kept = bisect.bisect_right(self._entries, term, 0, upto, key=lambda entry: entry.term)
        return self.base_index + kept

    def commit_to(self, index: int) -> None:
        """Everything up to ``index`` is decided. Never goes back."""
        if index > self.last_index:
            raise Corruption(f"commit {index} beyond the log's end {self.last_index}: log lost?")
        self.commit = max(self.commit, index)

    def take_unwritten(self) -> tuple[Entry, ...]:
        """Entries the host was not yet given for writing."""
        if self.ledger.offered == self.last_index:
            return ()
        return tuple(self._entries[self.ledger.offered - self.base_index :])

    def take_committed(self, bytes_max: int) -> tuple[Entry, ...]:
        """The next entries to apply: decided, and durable here."""
        if self.commit <= self.handed:
            return ()
        limit = self.applicable_index()
        if limit <= self.handed:
            return ()
        entries = self.slice(self.handed + 1, limit, bytes_max)
        self.handed = entries[-1].index
        return entries

    def applicable_index(self) -> int:
        """How far the state machine may go."""
        return min(self.commit, self.ledger.persisted)

    def applied_to(self, index: int) -> None:
        """The host applied everything up to ``index``."""
        assert index <= self.handed, f"applied {index}, but only {self.handed} was handed out"
        self.applied = max(self.applied, index)

    def describe(self, index: int) -> Snapshot:
        """What a state image taken at ``index`` stands for."""
        term = self.term_at(index)
        if term is None or index > self.applied:
            raise InvalidArgument(
                f"no snapshot at {index}: the log knows {self.base_index} to {self.applied}"
            )
        return Snapshot(index, term, self.history.at(index))

    def compact(self, index: int) -> Snapshot:
        """Forget the entries up to ``index``, which the state machine holds; the new start."""
        if index <= self.base_index:
            return self.describe(self.base_index)
        snapshot = self.describe(index)
        self.history.compact(index)
        del self._entries[: index - self.base_index]
        self.base_index, self.base_term = snapshot.index, snapshot.term
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Begin anew after ``snapshot``, which covers more than was ever decided here."""
        assert snapshot.index > self.commit
        self._entries.clear()
        self.base_index, self.base_term = snapshot.index, snapshot.term
        self.last_index = self.commit = self.handed = self.applied = snapshot.index
        self.history = MembershipHistory(snapshot.membership)
        self.ledger.restart_at(snapshot.index)

    def check_invariants(self) -> None:
        """Assert what must hold between any two calls."""
        assert self.base_index <= self.handed <= self.commit <= self.last_index
        assert self.applied <= self.handed
        assert self.last_index == self.base_index + len(self._entries)
        assert self.ledger.offered <= self.last_index
        assert self.ledger.persisted <= self.last_index
        assert self.history.current_index <= self.last_index
