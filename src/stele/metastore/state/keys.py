"""Where everything is stored: ``[table id][user key][sub key]``, in byte order.

    01 path 00 01               the newest version of a key, also of one that is deleted
    01 path 00 02               the lock of that key
    02 path 00 index            versions that are no longer the newest, oldest first
    03 index                    which keys the entry at this index changed
    04 session                  the sessions
    05 session path             the ephemeral keys of a session
    06 session path             the locks that a session holds or waits for
    07 client sequence          answers for clients that may ask again
    08 directory                access rules
    09 node                     alarms
    00                          the header: applied index, waterline, account of space

Numbers have eight bytes, the highest first. A path has no NUL, so that one ends it and the order
of stored keys is the order of paths.
"""

from __future__ import annotations

import struct
from typing import Final

HEADER: Final = b"\x00"
END_OF_STATE: Final = b"\x0a"

VALUE: Final = b"\x00\x01"
"""Sub key 1 behind the end of a path."""
LOCK: Final = b"\x00\x02"

_USER: Final = b"\x01"
_HISTORY: Final = b"\x02"
CHANGELOG: Final = b"\x03"
SESSIONS: Final = b"\x04"
_EPHEMERAL: Final = b"\x05"
_SESSION_LOCKS: Final = b"\x06"
RETRIES: Final = b"\x07"
RULES: Final = b"\x08"
ALARMS: Final = b"\x09"

_NUMBER: Final = struct.Struct(">Q")
_TWO_NUMBERS: Final = struct.Struct(">QQ")
NUMBER_BYTES: Final = _NUMBER.size


def number_in(data: bytes, offset: int) -> int:
    """The number that stands at an offset."""
    found: int = _NUMBER.unpack_from(data, offset)[0]
    return found


def value_key(path: str) -> bytes:
    """Where the newest version of a key is."""
    return _USER + path.encode() + VALUE


def lock_key(path: str) -> bytes:
    """Where the lock of a key is."""
    return _USER + path.encode() + LOCK


def path_of(stored: bytes) -> str:
    """The path of a key in table 1."""
    return stored[1:-2].decode()


def user_bounds(start: str, end: str) -> tuple[bytes, bytes]:
    """The part of table 1 with all keys from ``start`` on and before ``end``."""
    return _USER + _bound(start), _USER + _bound(end)


def _bound(text: str) -> bytes:
    # A bound may hold a NUL where no key does, as "/a\0", the first text after "/a". Stored keys
    # end in NUL themselves; 01 stands above all of those of "/a" and below every longer key.
    head, found, _ = text.partition("\0")
    return head.encode() + b"\x01" if found else head.encode()


def history_key(path: str, index: int) -> bytes:
    """Where a version is once it is not the newest."""
    return _HISTORY + path.encode() + b"\0" + _NUMBER.pack(index)


def superseded_key(stored: bytes, index: int) -> bytes:
    """The same, of a key that is at hand as ``value_key`` gave it."""
    return _HISTORY + stored[1:-1] + _NUMBER.pack(index)


def history_bounds(path: str, index: int) -> tuple[bytes, bytes]:
    """The old versions of a key that were written at or before an index."""
    prefix = _HISTORY + path.encode() + b"\0"
    return prefix, prefix + _NUMBER.pack(index + 1)


def changelog_key(index: int) -> bytes:
    """Where the keys that an entry changed are listed."""
    return CHANGELOG + _NUMBER.pack(index)


def session_key(session: int) -> bytes:
    """Where a session is."""
    return SESSIONS + _NUMBER.pack(session)


def ephemeral_key(session: int, path: str) -> bytes:
    """Says that a key ends with a session."""
    return _EPHEMERAL + _NUMBER.pack(session) + path.encode()


def ephemeral_bounds(session: int) -> tuple[bytes, bytes]:
    """All ephemeral keys of a session."""
    return _EPHEMERAL + _NUMBER.pack(session), _EPHEMERAL + _NUMBER.pack(session + 1)


def session_lock_key(session: int, path: str) -> bytes:
    """Says that a session holds or awaits a lock."""
    return _SESSION_LOCKS + _NUMBER.pack(session) + path.encode()


def session_lock_bounds(session: int) -> tuple[bytes, bytes]:
    """All locks of a session."""
    return _SESSION_LOCKS + _NUMBER.pack(session), _SESSION_LOCKS + _NUMBER.pack(session + 1)


def path_of_session_key(stored: bytes) -> str:
    """The path in a key of the two tables above."""
    return stored[1 + NUMBER_BYTES :].decode()


def retry_key(client: int, sequence: int) -> bytes:
    """Where the answer to a request is."""
    return RETRIES + _TWO_NUMBERS.pack(client, sequence)


def rules_key(directory: str) -> bytes:
    """Where the access rules of a directory are."""
    return RULES + directory.encode()


def alarm_key(node: int) -> bytes:
    """Where the alarm of a node is."""
    return ALARMS + _NUMBER.pack(node)


def table_bounds(table: bytes) -> tuple[bytes, bytes]:
    """All of a table."""
    return table, bytes([table[0] + 1])
