"""Watches: whole transactions, in order, without gap or duplicate, from an index on.

A watcher is **behind** or **current**. One that is behind reads the history of the state, a
bounded piece at a time; when it has seen all of it, it is current and gets what is published. The
queue of a current watcher is bounded: one that overflows loses its queue and is behind again, to go
on after the last index it took. So a slow watcher costs reads instead of memory, and nobody misses
anything, until the waterline has passed it: then it is told ``SnapshotTooOld`` with the index where
history begins.

                 add, or overflow                 history is exhausted
    (new) ──────────────────────▶ BEHIND ───────────────────────────▶ CURRENT
                                    ▲                 overflow            │
                                    └─────────────────────────────────────┘

What a change costs depends on the depth of its key and on those who watch it, not on how many
others there are: watchers are found by their key, or by their directory among those the key is in.
Ranges that are neither are looked at one by one.

Pure: no clock, no threads, no I/O but reads of the state. The host takes what is there whenever it
likes; ``wake`` tells it that there is something after there was nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from stele.errors import LimitExceeded
from stele.metastore.paths import bounds, directories_of, prefix_end
from stele.protocol.metastore_values import Change, Changes, KeyRange

WATCHERS_MAX: Final = 10_000
QUEUED_CHANGES_MAX: Final = 1024
"""Changes that wait for one watcher; beyond it reads the history instead."""
HISTORY_ENTRIES_PER_TAKE: Final = 256
"""Transactions of the history that are looked at in one go: well below a millisecond or two."""


class History(Protocol):
    """The past of the state, as a ``StateMachine`` tells it."""

    @property
    def applied_index(self) -> int:
        """The last index there is."""

    def history(self, after: int, limit: int) -> Sequence[Changes]:
        """At most ``limit`` transactions above an index; ``SnapshotTooOld`` if some are gone."""


class Delivery(msgspec.Struct, frozen=True):
    """What a watcher gets: everything up to ``index`` that it has not got before."""

    index: int
    transactions: tuple[Changes, ...]
    more: bool
    """Take again at once."""


class Watcher:
    """One watch. Made by the hub; its owner takes from it and removes it."""

    __slots__ = ("_is_behind", "_queue", "_queued", "_wake", "position", "selected")

    def __init__(self, selected: KeyRange, since: int, wake: Callable[[], None]):
        self.selected = selected
        self.position = since
        """Everything up to here was taken."""
        self._wake = wake
        self._is_behind = True
        self._queue: deque[Changes] = deque()
        self._queued = 0

    def take(self, history: History) -> Delivery:
        """The next part. Without anything new it is empty, and still says how far it is."""
        if self._is_behind:
            return self._catch_up(history)
        transactions = tuple(self._queue)
        self._forget_queue()
        # A watcher may ask for what is still to come: it stays where it wants to begin.
        self.position = max(history.applied_index, self.position)
        return Delivery(self.position, transactions, more=False)

    def _catch_up(self, history: History) -> Delivery:
        applied = history.applied_index
        found = history.history(self.position, HISTORY_ENTRIES_PER_TAKE)
        self._is_behind = len(found) == HISTORY_ENTRIES_PER_TAKE
        reached = found[-1].index if self._is_behind else max(applied, self.position)
        self.position = reached
        start, end = bounds(self.selected)
        transactions = []
        for transaction in found:
            seen = tuple(each for each in transaction.changes if start <= each.key < end)
            if seen:
                transactions.append(Changes(transaction.index, seen))
        return Delivery(reached, tuple(transactions), more=self._is_behind)

    def pass_over(self, index: int) -> None:
        """Its owner has read the whole state at ``index``: what led there need not be taken."""
        self._forget_queue()
        self._is_behind = False
        self.position = index

    def offer(self, index: int, changes: list[Change]) -> None:
        """Something it watches has changed."""
        if self._is_behind or index <= self.position:
            return
        if not self._queue:
            self._wake()
        self._queued += len(changes)
        if self._queued > QUEUED_CHANGES_MAX:
            self._forget_queue()
            self._is_behind = True
        else:
            self._queue.append(Changes(index, tuple(changes)))

    def _forget_queue(self) -> None:
        self._queue.clear()
        self._queued = 0


class WatchHub:
    """All watchers of one node.

    It hears of what is applied. When an image replaces the state, what that brought was never
    published: whoever installs one ends the watches, and their owners resume them.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Watcher, None]] = {}
        self._by_directory: dict[str, dict[Watcher, None]] = {}
        self._others: dict[Watcher, None] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, selected: KeyRange, since: int, wake: Callable[[], None]) -> Watcher:
        """Watch keys from the index after ``since`` on. Take at once: it may be behind.

        ``wake`` is called from within ``publish``; it must not call back.
        """
        if self._count >= WATCHERS_MAX:
            raise LimitExceeded(f"this node has {WATCHERS_MAX} watches, which is the limit")
        watcher = Watcher(selected, since, wake)
        home, key = self._home(selected)
        if home is None:
            self._others[watcher] = None
        else:
            home.setdefault(key, {})[watcher] = None
        self._count += 1
        return watcher

    def remove(self, watcher: Watcher) -> None:
        """End a watch. Idempotent."""
        home, key = self._home(watcher.selected)
        watchers = self._others if home is None else home.get(key, {})
        if watcher not in watchers:
            return
        del watchers[watcher]
        if home is not None and not watchers:
            del home[key]
        self._count -= 1

    def _home(self, selected: KeyRange) -> tuple[dict[str, dict[Watcher, None]] | None, str]:
        start = selected.start
        if selected.end is None:
            return self._by_key, start
        if start.endswith("/") and selected.end == prefix_end(start):
            return self._by_directory, start
        return None, ""

    def publish(self, transaction: Changes) -> None:
        """Offer a transaction to those who watch any of its keys, each its own part of it."""
        if not self._count:
            return
        parts: dict[Watcher, list[Change]] = {}
        for change in transaction.changes:
            for watcher in self._watchers_of(change.key):
                parts.setdefault(watcher, []).append(change)
        for watcher, changes in parts.items():
            watcher.offer(transaction.index, changes)

    def _watchers_of(self, key: str) -> Iterator[Watcher]:
        yield from self._by_key.get(key, ())
        if self._by_directory:
            for directory in directories_of(key):
                yield from self._by_directory.get(directory, ())
        for watcher in self._others:
            start, end = bounds(watcher.selected)
            if start <= key < end:
                yield watcher
