"""Transactions: compares with two branches, and commits validated by the ranges they read.

Both end in the same few operations on versions. Whatever could refuse them is looked at first, so
that an entry does all of its operations or none.

**Validation.** A transaction read at ``read_index`` and wants to commit at a later one. If no key
in the ranges it read has changed in between, reading again now would give the same, so it may be
placed at this index as if it had run in no time: serializable, phantoms and write skew included,
because ranges are validated and not keys. This stands for range locks in a leader's memory; there
is nothing to lose with a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq, gt, lt, ne
from typing import Any, Final

from stele.errors import Conflict, LimitExceeded, OutOfSpace, SteleError
from stele.metastore.state.footprint import Footprint
from stele.metastore.state.header import Header
from stele.metastore.state.locks import Locks
from stele.metastore.state.sessions import Sessions
from stele.metastore.state.versions import Versions
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    KeyRange,
    KeyValue,
    Operation,
    Put,
    Relation,
)

DELETED_KEYS_MAX: Final = 10_000
"""Keys that one entry may delete: some ten milliseconds, a fraction of an election timeout."""

CHANGELOG_WALK_MAX: Final = 256
"""Up to so many entries since the read, a range is validated by what these have changed; beyond, by
what is in it. Either gives the same answer."""

RELATIONS: Final[Mapping[Relation, Callable[[Any, Any], bool]]] = {
    Relation.EQUAL: eq,
    Relation.NOT_EQUAL: ne,
    Relation.LESS: lt,
    Relation.GREATER: gt,
}


class Transactions:
    """Carries out operations. A refusal is returned, never raised, and nothing is done then."""

    def __init__(
        self,
        header: Header,
        versions: Versions,
        sessions: Sessions,
        locks: Locks,
        alarms: Mapping[int, str],
    ):
        self._header = header
        self._versions = versions
        self._sessions = sessions
        self._locks = locks
        self._alarms = alarms

    def all_hold(self, compares: Sequence[Compare]) -> bool:
        """Whether all conditions are true now."""
        return all(self._holds(compare) for compare in compares)

    def _holds(self, compare: Compare) -> bool:
        subject = self._subject(compare)
        if type(subject) is not type(compare.operand):
            return False  # refused before it was proposed; a replica must not fail on it
        return RELATIONS[compare.relation](subject, compare.operand)

    def _subject(self, compare: Compare) -> int | bytes:
        if compare.field == CompareField.TOKEN:
            return self._locks.token(compare.key)
        item = self._versions.get(compare.key)
        if item is None:
            return b"" if compare.field == CompareField.VALUE else 0
        match compare.field:
            case CompareField.VALUE:
                return item.value
            case CompareField.VERSION:
                return item.version
            case CompareField.CREATED:
                return item.created
            case CompareField.INDEX:
                return item.index
            case _:
                return item.session

    def why_not(self, operations: Sequence[Operation], client: int) -> SteleError | None:
        """Why none of the operations may be done, if so."""
        deleted = 0
        for operation in operations:
            if isinstance(operation, Put):
                if self._alarms or 0 < self._header.quota_bytes <= self._header.used_bytes:
                    return self._no_space()
                if operation.session:
                    refused = self._sessions.why_not(operation.session, client)
                    if refused is not None:
                        return refused
            elif isinstance(operation, Delete) and operation.end is not None:
                for _ in self._versions.scan(operation.key, operation.end):
                    deleted += 1
                    if deleted > DELETED_KEYS_MAX:
                        return LimitExceeded(
                            f"more than {DELETED_KEYS_MAX} keys from {operation.key!r} on would be "
                            "deleted at once: delete smaller ranges"
                        )
        return None

    def _no_space(self) -> OutOfSpace:
        if self._alarms:
            node, reason = min(self._alarms.items())
            return OutOfSpace(f"node {node} has no space, {reason}: delete something first")
        return OutOfSpace(
            f"{self._header.used_bytes} bytes are used and the quota is "
            f"{self._header.quota_bytes}: delete something and let history go, or raise it"
        )

    def do(self, footprint: Footprint, operation: Operation) -> int | KeyValue | None:
        """Carry one operation out: the version put, the number of keys deleted, the key read."""
        if isinstance(operation, Put):
            return self._versions.put(footprint, operation.key, operation.value, operation.session)
        if isinstance(operation, Delete):
            if operation.end is None:
                return self._versions.delete(footprint, operation.key)
            found = [item.key for item in self._versions.scan(operation.key, operation.end)]
            return sum(self._versions.delete(footprint, key) for key in found)
        return self._versions.get(operation.key)

    def conflict(
        self, index: int, read_index: int, ranges: Sequence[KeyRange]
    ) -> SteleError | None:
        """Why what was read at ``read_index`` does not hold any more at ``index``, if so."""
        wide = []
        for selected in ranges:
            if selected.end is not None:
                wide.append((selected.start, selected.end))
            elif self._versions.changed_index(selected.start) > read_index:
                return _changed(selected.start, read_index)
        if not wide:
            return None
        if index - read_index <= CHANGELOG_WALK_MAX:
            key = self._changed_in_log(index, read_index, wide)
        else:
            key = self._changed_in_ranges(read_index, wide)
        return None if key is None else _changed(key, read_index)

    def _changed_in_log(
        self, index: int, read_index: int, ranges: list[tuple[str, str]]
    ) -> str | None:
        for between in range(read_index + 1, index):
            for key in self._versions.changed_by(between):
                if any(start <= key < end for start, end in ranges):
                    return key
        return None

    def _changed_in_ranges(self, read_index: int, ranges: list[tuple[str, str]]) -> str | None:
        for start, end in ranges:
            key = self._versions.changed_since(start, end, read_index)
            if key is not None:
                return key
        return None


def _changed(key: str, read_index: int) -> Conflict:
    return Conflict(f"{key} has changed after index {read_index}: read again, decide again")
