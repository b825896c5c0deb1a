"""Keys and their versions.

The newest version of a key stands in table 1 and is found by one get. When it is overwritten it
moves to the history, under the index that wrote it; a deletion is a version too, with nothing in
it. So the state at any index from the waterline on can be read, and a transaction can see that a
key in its range has changed even if the key is gone again.

The changelog lists, for each index, the keys that changed, and for each when the version before it
was written. From it come the events of watches, and the list of what may go when the waterline
rises: a version goes when the one that followed it is at or below the waterline, a deletion itself
when it is at or below it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from stele.errors import SnapshotTooOld
from stele.metastore.state import keys
from stele.metastore.state.footprint import Footprint
from stele.metastore.state.header import Header
from stele.metastore.state.staging import Staged
from stele.protocol.metastore_values import Change, Changes, KeyValue

FORGET_CHANGES_MAX: Final = 4096
"""How many versions an entry may give up that is there for it: some ten milliseconds."""
FORGET_CHANGES_BESIDE: Final = 4
"""How many any other entry gives up beside its own work while the waterline is behind its goal:
more than it makes, so the goal is reached whatever the load."""

RECENT_KEYS_MAX: Final = 16_384
RECENT_BYTES_MAX: Final = 1024
"""So many newest versions of at most this size are at hand without asking the store, and up to as
many again that were used before them."""

_VERSION: Final = struct.Struct(">QQQQ")
"""Created, changed, version (0: deleted), session; the value follows."""
_PREFIX_BYTES: Final = _VERSION.size

_encoder: Final = msgspec.msgpack.Encoder()
_changelog_decoder: Final[msgspec.msgpack.Decoder[dict[str, int]]] = msgspec.msgpack.Decoder(
    dict[str, int]
)


class Versions:
    """Writes and reads versions. Only the state machine may call what takes a footprint or index.

    Invariant: what ``_recent`` holds of a key, or ``_older`` where that has nothing, is what the
    staged store holds as its newest version. Those that were used longest ago go first.
    """

    def __init__(self, staged: Staged, header: Header):
        self._staged = staged
        self._header = header
        self._recent: dict[str, bytes] = {}
        self._older: dict[str, bytes] = {}

    def _newest_of(self, key: str) -> bytes | None:
        """The newest version of a key, which is not among the recent ones."""
        if len(self._recent) >= RECENT_KEYS_MAX:
            self._older, self._recent = self._recent, {}
        found = self._older.get(key)
        if found is None:
            found = self._staged.get(keys.value_key(key))
        if found is not None and len(found) <= RECENT_BYTES_MAX:
            self._recent[key] = found
        return found

    def _set_newest(self, key: str, stored: bytes, version: bytes | None) -> None:
        self._staged.changes[stored] = version
        if version is not None and len(version) <= RECENT_BYTES_MAX:
            self._recent[key] = version
        else:
            self._recent.pop(key, None)
            self._older.pop(key, None)

    def put_alone(self, index: int, key: str, value: bytes) -> tuple[int, Change]:
        """``put`` and ``conclude`` for an entry that does nothing else, and for no session."""
        header, changes = self._header, self._staged.changes
        created, version, changed = index, 1, 0
        stored = keys.value_key(key)
        old = self._recent.get(key) or self._newest_of(key)
        if old is None:
            header.used_bytes += len(stored) + _PREFIX_BYTES + len(value)
            header.key_count += 1
        else:
            old_created, changed, old_version, old_session = _VERSION.unpack_from(old)
            kept = keys.superseded_key(stored, changed)
            changes[kept] = old
            header.used_bytes += len(kept) + _PREFIX_BYTES + len(value)
            if old_version:
                created, version = old_created, old_version + 1
            else:
                header.key_count += 1
            if old_session:
                changes[keys.ephemeral_key(old_session, key)] = None
        newest = _VERSION.pack(created, index, version, 0) + value
        if len(newest) <= RECENT_BYTES_MAX:
            changes[stored] = self._recent[key] = newest
        else:
            self._set_newest(key, stored, newest)
        changes[keys.changelog_key(index)] = _encoder.encode({key: changed})
        return version, Change(key, value, created, version)

    def put(self, footprint: Footprint, key: str, value: bytes, session: int) -> int:
        """Set a key; the new number of its version."""
        index = footprint.index
        created, version = index, 1
        stored = keys.value_key(key)
        old = self._recent.get(key) or self._newest_of(key)
        if old is None:
            self._header.used_bytes += len(stored) + _PREFIX_BYTES + len(value)
            self._header.key_count += 1
            footprint.superseded[key] = 0
        else:
            old_created, old_changed, old_version, old_session = _VERSION.unpack_from(old)
            self._supersede(footprint, key, stored, old, old_changed)
            self._header.used_bytes += _PREFIX_BYTES + len(value) - len(old)
            if old_version:
                created, version = old_created, old_version + 1
            else:
                self._header.key_count += 1
            if old_session:
                self._staged.delete(keys.ephemeral_key(old_session, key))
        if session:
            self._staged.put(keys.ephemeral_key(session, key), b"")
        self._set_newest(key, stored, _VERSION.pack(created, index, version, session) + value)
        footprint.changes[key] = Change(key, value, created, version, session)
        return version

    def delete(self, footprint: Footprint, key: str) -> int:
        """Delete a key; how many that were: one, or none when it does not exist."""
        stored = keys.value_key(key)
        old = self._recent.get(key) or self._newest_of(key)
        if old is None:
            return 0
        _, changed, version, session = _VERSION.unpack_from(old)
        if not version:
            return 0
        self._supersede(footprint, key, stored, old, changed)
        self._header.used_bytes += _PREFIX_BYTES - len(old)
        self._header.key_count -= 1
        if session:
            self._staged.delete(keys.ephemeral_key(session, key))
        self._set_newest(key, stored, _VERSION.pack(0, footprint.index, 0, 0))
        footprint.changes[key] = Change(key, None)
        return 1

    def _supersede(
        self, footprint: Footprint, key: str, stored: bytes, old: bytes, changed: int
    ) -> None:
        if changed == footprint.index:
            return  # the entry wrote it itself: nobody can ever read it
        footprint.superseded[key] = changed
        kept = keys.superseded_key(stored, changed)
        self._staged.changes[kept] = old
        self._header.used_bytes += len(kept) + len(old)

    def conclude(self, footprint: Footprint) -> None:
        """Note in the changelog what an entry has changed."""
        if footprint.superseded:
            self._staged.changes[keys.changelog_key(footprint.index)] = _encoder.encode(
                footprint.superseded
            )

    def get(self, key: str, at: int | None = None) -> KeyValue | None:
        """A key as it is, or as it was after an index."""
        newest = self._recent.get(key) or self._newest_of(key)
        if newest is None:
            return None
        return _seen(key, newest if at is None else self._version_at(key, newest, at))

    def changed_index(self, key: str) -> int:
        """When a key was changed last, by a deletion too; 0 when that is not known any more."""
        newest = self._recent.get(key) or self._newest_of(key)
        return 0 if newest is None else keys.number_in(newest, keys.NUMBER_BYTES)

    def scan(
        self, start: str, end: str, at: int | None = None, *, reverse: bool = False
    ) -> Iterator[KeyValue]:
        """The keys of a range as they are, or as they were after an index."""
        for key, newest in self._newest(start, end, reverse=reverse):
            found = _seen(key, newest if at is None else self._version_at(key, newest, at))
            if found is not None:
                yield found

    def changed_since(self, start: str, end: str, index: int) -> str | None:
        """Some key in a range that was changed after an index."""
        for key, newest in self._newest(start, end):
            if keys.number_in(newest, keys.NUMBER_BYTES) > index:
                return key
        return None

    def _newest(
        self, start: str, end: str, *, reverse: bool = False
    ) -> Iterator[tuple[str, bytes]]:
        for stored, newest in self._staged.scan(*keys.user_bounds(start, end), reverse=reverse):
            if stored.endswith(keys.VALUE):
                yield keys.path_of(stored), newest

    def _version_at(self, key: str, newest: bytes, at: int) -> bytes | None:
        if keys.number_in(newest, keys.NUMBER_BYTES) <= at:
            return newest
        for _, old in self._staged.scan(*keys.history_bounds(key, at), reverse=True):
            return old
        return None

    def check_readable(self, index: int) -> None:
        """Refuse an index whose state is given up."""
        if index < self._header.waterline:
            raise SnapshotTooOld(
                f"index {index} is below the waterline: history begins at {self._header.waterline}"
            )

    def changed_by(self, index: int) -> Iterable[str]:
        """The keys that one entry has changed."""
        listed = self._staged.get(keys.changelog_key(index))
        return () if listed is None else _changelog_decoder.decode(listed)

    def changed_keys(self, after: int) -> Iterator[tuple[int, dict[str, int]]]:
        """The changelog behind an index."""
        start, end = keys.changelog_key(after + 1), keys.table_bounds(keys.CHANGELOG)[1]
        for stored, listed in self._staged.scan(start, end):
            yield keys.number_in(stored, 1), _changelog_decoder.decode(listed)

    def history(self, after: int, limit: int) -> list[Changes]:
        """At most ``limit`` whole transactions with an index above ``after``."""
        self.check_readable(after)
        found = []
        for index, listed in self.changed_keys(after):
            found.append(Changes(index, tuple(self._change(key, index) for key in listed)))
            if len(found) == limit:
                break
        return found

    def _change(self, key: str, index: int) -> Change:
        newest = self._staged.get(keys.value_key(key))
        if newest is None or keys.number_in(newest, keys.NUMBER_BYTES) != index:
            newest = self._staged.get(keys.history_key(key, index))
        assert newest is not None, f"no version of {key} was kept at {index}"
        created, _, version, session = _VERSION.unpack_from(newest)
        value = newest[_PREFIX_BYTES:] if version else None
        return Change(key, value, created, version, session)

    def forget(self, up_to: int) -> int:
        """Raise the waterline, as far as one entry may; where it stands then."""
        self._header.waterline_goal = max(self._header.waterline_goal, up_to)
        self._forget_some(FORGET_CHANGES_MAX)
        return self._header.waterline

    def forget_all(self, up_to: int) -> None:
        """Raise the waterline at once, however much there is to give up."""
        self._header.waterline_goal = up_to
        self._forget_some(sys.maxsize)

    @property
    def is_forgetting(self) -> bool:
        """Whether there is still something to give up."""
        return self._header.waterline < self._header.waterline_goal

    def forget_beside(self) -> None:
        """Give up a little more."""
        self._forget_some(FORGET_CHANGES_BESIDE)

    def _forget_some(self, changes_max: int) -> None:
        forgotten = 0
        reached = self._header.waterline_goal
        for index, listed in self.changed_keys(self._header.waterline):
            if index > self._header.waterline_goal:
                break
            if forgotten >= changes_max:
                reached = index - 1
                break
            for key, previous in listed.items():
                self._forget_superseded(key, index, previous)
            self._staged.delete(keys.changelog_key(index))
            forgotten += len(listed)
        self._header.waterline = reached

    def _forget_superseded(self, key: str, index: int, previous: int) -> None:
        if previous:
            self._drop(keys.history_key(key, previous))
        newest = self._recent.get(key) or self._newest_of(key)
        assert newest is not None, f"{key} has changed at {index} and has no version"
        _, changed, version, _ = _VERSION.unpack_from(newest)
        if changed == index and not version:
            stored = keys.value_key(key)
            self._drop(stored)
            self._set_newest(key, stored, None)

    def _drop(self, stored: bytes) -> None:
        old = self._staged.get(stored)
        assert old is not None, f"a version that was superseded is not there: {stored!r}"
        self._header.used_bytes -= len(stored) + len(old)
        self._staged.delete(stored)


def _seen(key: str, stored: bytes | None) -> KeyValue | None:
    if stored is None:
        return None
    created, changed, version, session = _VERSION.unpack_from(stored)
    if not version:
        return None
    return KeyValue(key, stored[_PREFIX_BYTES:], changed, created, version, session)
