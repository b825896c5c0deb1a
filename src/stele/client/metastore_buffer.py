"""What an interactive transaction has read and wants to write. Pure.

All reads are of one index, the first one's. Writes are kept here and shown to later reads of the
same transaction. The commit names every range that was read: it is refused if any key in one of
them, also one that was not there before, has changed since. So what was read is still true at the
moment of the commit: transactions are serializable, without locks.
"""

from __future__ import annotations

from collections.abc import Sequence

from stele.client.metastore_paths import contains
from stele.protocol.metastore import CommitRequest
from stele.protocol.metastore_values import Delete, Identity, KeyRange, KeyValue, Put


class TransactionBuffer:
    """One transaction."""

    def __init__(self) -> None:
        self.read_index = 0
        """0 until the first read."""
        self.ranges: dict[KeyRange, None] = {}
        self._writes: dict[str, Put | Delete] = {}

    @property
    def is_read_only(self) -> bool:
        """Nothing to commit: what was read is a snapshot, and as such true for ever."""
        return not self._writes

    def note_read(self, selected: KeyRange, index: int) -> None:
        """A range was read at ``index``."""
        self.read_index = self.read_index or index
        self.ranges[selected] = None

    def put(self, write: Put) -> None:
        """Write a key; the last write of a key holds."""
        self._writes[write.key] = write

    def delete(self, key: str) -> None:
        """Remove a key."""
        self._writes[key] = Delete(key)

    def written(self, key: str) -> tuple[bool, KeyValue | None]:
        """Whether this transaction wrote a key itself, and what it then is."""
        write = self._writes.get(key)
        if write is None:
            return False, None
        return True, _pending(write)

    def overlay(self, selected: KeyRange, items: Sequence[KeyValue]) -> list[KeyValue]:
        """The keys of a range as this transaction sees them: what it read under what it wrote."""
        mine = {key: write for key, write in self._writes.items() if contains(selected, key)}
        if not mine:
            return list(items)
        merged = {item.key: item for item in items if item.key not in mine}
        for key, write in mine.items():
            item = _pending(write)
            if item is not None:
                merged[key] = item
        return [merged[key] for key in sorted(merged)]

    def commit_request(self, identity: Identity) -> CommitRequest:
        """The message that ends it."""
        return CommitRequest(
            identity, self.read_index, tuple(self.ranges), tuple(self._writes.values())
        )


def _pending(write: Put | Delete) -> KeyValue | None:
    """A write that is not committed, as a read of the same transaction shows it: at no index."""
    if isinstance(write, Delete):
        return None
    return KeyValue(write.key, write.value, 0, 0, 0, write.session)
