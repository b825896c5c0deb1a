"""The commit ring: which rows changed lately, and when. It decides row transactions.

A row transaction read its row at some txn and may commit only if the row has not changed since.
The ring remembers the last commit of recently changed rows within a bound of bytes. When it forgets
commits, its *floor* rises to the newest of them, and a row it does not know counts as changed
at the floor. So an answer is never a missed conflict, at worst a needless one for a transaction
that lasted longer than the ring remembers.

A small commit is one dictionary entry for each row. A bulk commit is one entry in all: it keeps
its sorted row keys and is searched when somebody asks. Recording a batch of a thousand rows
then costs as much as recording one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

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


class CommitRing:
    """One tablet's memory of recent commits. Its owner's critical section guards it."""

    __slots__ = ("_bulk", "_bytes", "_bytes_max", "_rows", "floor")

    def __init__(self, floor: int, bytes_max: int = RING_BYTES_MAX):
        self.floor = floor
        self._bytes_max = bytes_max
        self._bytes = 0
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        self._bulk: deque[BulkCommit] = deque()

    def record(self, rows: Iterable[bytes], txn: int) -> None:
        """Remember a small commit. Txns never go back."""
        for row in rows:
            if row in self._rows:
                self._rows.move_to_end(row)
            else:
                self._bytes += len(row) + ENTRY_OVERHEAD_BYTES
            self._rows[row] = txn
        if self._bytes > self._bytes_max:
            self._forget()

    def record_bulk(self, commit: BulkCommit) -> None:
        """Remember a commit of many rows."""
        self._bulk.append(commit)
        self._bytes += commit.size_bytes + ENTRY_OVERHEAD_BYTES
        if self._bytes > self._bytes_max:
            self._forget()

    def last_commit(self, row: bytes) -> int:
        """The txn of the row's last commit; the floor when the ring does not know."""
        newest = max(self._rows.get(row, self.floor), self.floor)
        for commit in reversed(self._bulk):
            if commit.txn <= newest:
                break
            if commit.contains(row):
                return commit.txn
        return newest

    def copy(self) -> CommitRing:
        """For the other half of a split: both sides know what the parent knew."""
        twin = CommitRing(self.floor, self._bytes_max)
        twin._rows = OrderedDict(self._rows)
        twin._bulk = deque(self._bulk)
        twin._bytes = self._bytes
        return twin

    @staticmethod
    def joined(lower: CommitRing, upper: CommitRing) -> CommitRing:
        """For a joined tablet: everything either side knew, and the higher floor."""
        ring = CommitRing(max(lower.floor, upper.floor), lower._bytes_max)
        newest = sorted([*lower._rows.items(), *upper._rows.items()], key=lambda entry: entry[1])
        for row, txn in newest:
            if txn > ring.floor:
                ring._rows[row] = txn
                ring._bytes += len(row) + ENTRY_OVERHEAD_BYTES
        bulk = {id(commit): commit for commit in (*lower._bulk, *upper._bulk)}
        for commit in sorted(bulk.values(), key=lambda commit: commit.txn):
            ring._bulk.append(commit)
            ring._bytes += commit.size_bytes + ENTRY_OVERHEAD_BYTES
        if ring._bytes > ring._bytes_max:
            ring._forget()
        return ring

    def raise_floor(self, txn: int) -> None:
        """Treat every unknown row as changed at ``txn``, as a prepared import requires."""
        self.floor = max(self.floor, txn)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def _forget(self) -> None:
        # Purged to half in one go, so that the cost of purging is spread over many commits.
        while self._bytes > self._bytes_max // 2 and (self._rows or self._bulk):
            row_txn = next(iter(self._rows.values())) if self._rows else None
            bulk_txn = self._bulk[0].txn if self._bulk else None
            if row_txn is not None and (bulk_txn is None or row_txn <= bulk_txn):
                row, txn = self._rows.popitem(last=False)
                self._bytes -= len(row) + ENTRY_OVERHEAD_BYTES
            else:
                commit = self._bulk.popleft()
                txn = commit.txn
                self._bytes -= commit.size_bytes + ENTRY_OVERHEAD_BYTES
            self.floor = max(self.floor, txn)
