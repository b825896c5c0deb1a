"""What a path given to a client selects: one key, or with a slash at its end all keys below it."""

from __future__ import annotations

from stele.errors import InvalidArgument
from stele.protocol.metastore_values import KeyRange


def selection(path: str, end: str | None = None) -> KeyRange:
    """The keys from ``path`` to ``end``; without an end, what the path itself selects.

    >>> selection("/jobs/")
    KeyRange(start='/jobs/', end='/jobs0')
    >>> selection("/jobs/42").end is None
    True
    """
    check_text(path)
    if end is not None:
        return KeyRange(path, end)
    if path.endswith("/"):
        return KeyRange(path, path[:-1] + "0")  # '0' is the character after '/'
    return KeyRange(path)


def check_text(key: object) -> str:
    """A key as text; what else is wrong with it the metastore says."""
    if isinstance(key, str):
        return key
    raise InvalidArgument(
        f"a key is text, a path such as '/jobs/42', not {type(key).__name__}: {key!r:.80}"
    )


def contains(selected: KeyRange, key: str) -> bool:
    """Whether a key is in a range."""
    if selected.end is None:
        return key == selected.start
    return selected.start <= key < selected.end


def check_value(value: object) -> bytes:
    """A value as bytes; text and numbers have no one encoding, so the caller has to choose it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise InvalidArgument(f"a value of the metastore is bytes, not {type(value).__name__}")
