"""The batch that is being made, and a view of the store as if it were already written.

Entries that are applied one after the other go into one batch. Each must see what those before it
did, so reads look at the batch first and then at the store. Between the two lies the batch before,
kept only because what was written a moment ago is what is read next, and a dictionary is quicker.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

from stele.metastore.kv import KeyValues, Reader


class Staged:
    """A ``Reader`` of the store with the changes that were not written yet."""

    __slots__ = ("_source", "_values", "_written", "changes")

    def __init__(self, values: KeyValues, source: Reader):
        self._values = values
        self._source = source
        """What is read: the store, or what is about to be its contents."""
        self.changes: dict[bytes, bytes | None] = {}
        """What will be written; ``None`` deletes. ``put`` and ``delete`` are for those who do it
        rarely: the hot path writes into it."""
        self._written: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key in self.changes:
            return self.changes[key]
        if key in self._written:
            return self._written[key]
        return self._source.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self.changes[key] = value

    def delete(self, key: bytes) -> None:
        self.changes[key] = None

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As of now: what is staged later is not seen by an iterator that was made before."""
        stored = self._source.scan(start, end, reverse=reverse)
        staged = sorted(
            (item for item in self.changes.items() if start <= item[0] < end),
            key=_key_of,
            reverse=reverse,
        )
        return _overlaid(stored, staged, reverse) if staged else stored

    def settle(self) -> None:
        """The source has become the contents of the store."""
        self._source = self._values

    def flush(self) -> None:
        """Write the batch and begin the next one."""
        self._values.write(self.changes)
        self._written, self.changes = self.changes, {}


def _key_of(item: tuple[bytes, Any]) -> bytes:
    return item[0]


def _overlaid(
    stored: Iterator[tuple[bytes, bytes]],
    staged: list[tuple[bytes, bytes | None]],
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    hidden = dict(staged)
    visible = (item for item in stored if item[0] not in hidden)
    written = ((key, value) for key, value in staged if value is not None)
    return merge(visible, written, key=_key_of, reverse=reverse)
