"""The port behind the state machine: an ordered map of bytes with atomic batches.

There are two versions, ``kv_rocks`` in production and ``kv_memory`` for simulation and for stores
in memory; ``tests/unit/metastore/test_kv.py`` is one suite over both.

What is durable when: a batch is atomic and ordered, not durable. After a crash the map holds the
effect of some prefix of the batches, at least of all that were written before the last ``sync``.
The log of consensus is the durable truth and knows from the applied index, which is in the batch,
where to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol


class Reader(Protocol):
    """Looking things up. An iterator sees the map as it was when the iterator was made."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys from ``start`` on and before ``end`` with their values, in order or backwards."""


class View(Protocol):
    """The map as it was at one moment, however it goes on. One thread, one scan at a time."""

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """As that of the map."""

    def close(self) -> None:
        """Let go of what is kept for it. Idempotent."""


class Replacement(Reader, Protocol):
    """Other contents, durable and beside those of the map. Readable before they are its own."""

    def adopt(self) -> None:
        """Become the contents of the map, in the map's thread. Quick."""

    def retire(self) -> None:
        """Let go of what was there before. Slow; for any thread, after ``adopt``."""


class KeyValues(Reader, Protocol):
    """The map. One thread uses it; ``sync``, ``stage`` and views may be used from others."""

    def write(self, batch: Mapping[bytes, bytes | None]) -> None:
        """Set all keys of the batch, or delete those with ``None``, as one step."""

    def view(self) -> View:
        """A view of this moment; cheap, but close it."""

    def sync(self) -> None:
        """Make durable all batches written before the call. Slow; leaves the GIL to others."""

    def stage(self, items: Iterable[tuple[bytes, bytes]]) -> Replacement:
        """Build what shall be there instead: exactly these, in the order of their keys.

        Slow; for any thread, one at a time, while the map goes on with the old contents. Once this
        returns a crash leaves the new ones, before that the old ones; so whoever calls has made up
        its mind, and writes nothing any more that has to be kept.
        """

    def close(self) -> None:
        """Let go of all files. Idempotent; what was not synced may still be durable."""
