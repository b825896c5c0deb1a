"""The commit ring: which rows changed lately, and when. It decides row transactions.

A row transaction read its row at some txn and may commit only if the row has not changed since.
The ring remembers the last commit of recently changed rows within a bound of bytes. When it forgets
commits, its *floor* rises to the newest of them, and a row it does not know counts as changed
at the floor. So an answer is never a missed conflict, at worst a needless one for a transaction
that lasted longer than the ring remembers.

A small commit is one dictionary entry for each row. A bulk commit is one entry in all: it keeps
its sorted row keys and is searched when somebody asks. Recording a batch of a thousand rows
then costs as much as recording one.

What is remembered is in two halves, recent and older. When the recent one is full it becomes the
older one, which is dropped as a whole: forgetting takes no step for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

RING_BYTES_MAX = 1 << 20
"""Enough for some ten thousand rows of a tablet. Twice as much remembers twice as long."""

ENTRY_OVERHEAD_BYTES = 96
"""What a remembered row costs in Python besides its key."""


@dataclass(frozen=True, slots=True)
class BulkCommit:
    """A commit of many rows, kept as a whole; ``contains`` bisects its sorted rows."""

    txn: int
    contains: Callable[[bytes], bool]
    size_bytes: int


@dataclass(slots=True)
class _Half:
    """Commits of some time."""

    rows: dict[bytes, int] = field(default_factory=dict)
    bulk: list[BulkCommit] = field(default_factory=list)
    size_bytes: int = 0
    txn: int = 0
    """Of the last of them."""

    def copy(self) -> _Half:
        return _Half(dict(self.rows), list(self.bulk), self.size_bytes, self.txn)

    @staticmethod
    def joined(lower: _Half, upper: _Half) -> _Half:
        rows = dict(lower.rows)
        for row, txn in upper.rows.items():
            rows[row] = max(txn, rows.get(row, txn))
        # Both sides of a split know what their parent knew.
        bulk = {id(commit): commit for commit in (*lower.bulk, *upper.bulk)}.values()
        size = sum(len(row) + ENTRY_OVERHEAD_BYTES for row in rows)
        size += sum(commit.size_bytes + ENTRY_OVERHEAD_BYTES for commit in bulk)
        ordered = sorted(bulk, key=lambda commit: commit.txn)
        return _Half(rows, ordered, size, max(lower.txn, upper.txn))


class CommitRing:
    """One tablet's memory of recent commits. Its owner's critical section guards it."""

    __slots__ = ("_bytes_max", "_older", "_recent", "_recent_max", "floor")

    def __init__(self, floor: int, bytes_max: int = RING_BYTES_MAX):
        self.floor = floor
        self._bytes_max = bytes_max
        self._older = _Half()
        self._recent = _Half()
        self._recent_max = bytes_max // 2

    def record(self, rows: Iterable[bytes], txn: int) -> None:
        """Remember a small commit. Txns never go back."""
        recent = self._recent
        known = recent.rows
        for row in rows:
            if row not in known:
                recent.size_bytes += len(row) + ENTRY_OVERHEAD_BYTES
            known[row] = txn
        recent.txn = txn
        if recent.size_bytes > self._recent_max:
            self._forget()

    def record_bulk(self, commit: BulkCommit) -> None:
        """Remember a commit of many rows."""
        recent = self._recent
        recent.bulk.append(commit)
        recent.size_bytes += commit.size_bytes + ENTRY_OVERHEAD_BYTES
        recent.txn = commit.txn
        if recent.size_bytes > self._recent_max:
            self._forget()

    def last_commit(self, row: bytes) -> int:
        """The txn of the row's last commit; the floor when the ring does not know."""
        newest = self.floor
        for half in (self._recent, self._older):
            newest = max(newest, half.rows.get(row, newest))
            for commit in reversed(half.bulk):
                if commit.txn <= newest:
                    break
                if commit.contains(row):
                    newest = commit.txn
        return newest

    def copy(self) -> CommitRing:
        """For the other half of a split: both sides know what the parent knew."""
        twin = CommitRing(self.floor, self._bytes_max)
        twin._older, twin._recent = self._older.copy(), self._recent.copy()
        twin._recent_max = self._recent_max
        return twin

    @staticmethod
    def joined(lower: CommitRing, upper: CommitRing) -> CommitRing:
        """For a joined tablet: everything either side knew, and the higher floor."""
        ring = CommitRing(max(lower.floor, upper.floor), lower._bytes_max)
        ring._older = _Half.joined(lower._older, upper._older)
        ring._recent = _Half.joined(lower._recent, upper._recent)
        if ring.size_bytes > ring._bytes_max:
            ring._forget()
        return ring

    def raise_floor(self, txn: int) -> None:
        """Treat every unknown row as changed at ``txn``, as a prepared import requires."""
        self.floor = max(self.floor, txn)

    @property
    def size_bytes(self) -> int:
        return self._older.size_bytes + self._recent.size_bytes

    def _forget(self) -> None:
        """Drop the older half, and the recent one too if it alone is too much to keep."""
        self.floor = max(self.floor, self._older.txn)
        self._older, self._recent = self._recent, _Half()
        if self._older.size_bytes > self._bytes_max:
            self.floor = max(self.floor, self._older.txn)
            self._older = _Half()
        # The older half has grown over its share by what came last: so much less is the other's.
        rest = self._bytes_max - self._older.size_bytes
        self._recent_max = min(self._bytes_max // 2, rest)
