"""Keys are absolute paths, and directories are prefixes that end in a slash.

    path       = 1*( "/" segment )             "/jobs/42"
    directory  = "/" | path "/"                "/jobs/": everything below, not "/jobs" itself
    segment    = 1*segment-character, but not "." or ".."

A segment consists of the characters that a segment of a URI may have (RFC 3986, ``pchar``), all of
them ASCII: letters, digits and ``-._~!$&'()*+,;=:@%``. So no two different keys look alike or are
equal in another Unicode normal form, and none holds NUL, a space, a backslash or a control
character. Nothing is normalised: ``//``, ``.``, ``..`` and a slash at the end of a key are refused
rather than understood, because a rule that speaks of ``/a/`` must hold for every spelling of what
is below it.

A key may have a value and keys below it at the same time. There are no directories to make or to
remove.
"""

from __future__ import annotations

import re
from typing import Final

from stele.errors import InvalidArgument, LimitExceeded
from stele.protocol.metastore_values import KeyRange

KEY_BYTES_MAX: Final = 1024
"""Also in characters: all of them are ASCII."""

ROOT: Final = "/"

_KEY: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9\-._~!$&'()*+,;=:@%]+)+")
_BOUND: Final = re.compile(r"[\x00-\x7f]*")


def check_key(key: str) -> str:
    """The key itself, or an error that says what is wrong with it."""
    try:
        is_path = _KEY.fullmatch(key) is not None
    except TypeError:
        raise InvalidArgument(f"a key is text, not {type(key).__name__}: {key!r:.80}") from None
    if not is_path:
        raise InvalidArgument(f"{_shown(key)} is not a path: {_what_is_wrong(key)}")
    return key if len(key) <= KEY_BYTES_MAX else _check_length(key)


def check_directory(path: str) -> str:
    """A directory: ``/``, or a path with a slash at its end."""
    if path == ROOT:
        return path
    if not path.endswith("/"):
        raise InvalidArgument(f"{_shown(path)} is not a directory: it must end with '/'")
    check_key(path[:-1])
    return _check_length(path)


def directory_range(path: str) -> KeyRange:
    """All keys below a directory."""
    return KeyRange(check_directory(path), prefix_end(path))


def selection(path: str) -> KeyRange:
    """What a path selects: one key, or with a slash at its end all keys below it."""
    return directory_range(path) if path.endswith("/") else KeyRange(check_key(path))


def check_range(selected: KeyRange) -> KeyRange:
    """A range of keys that may be read, deleted or validated; its ends need not be paths."""
    if selected.end is None:
        check_key(selected.start)
        return selected
    for bound in (selected.start, selected.end):
        if _BOUND.fullmatch(bound) is None:
            raise InvalidArgument(f"the end of a range {_shown(bound)} is not ASCII")
        _check_length(bound)
    if selected.end <= selected.start:
        raise InvalidArgument(
            f"a range is empty: its end {_shown(selected.end)} is not above its start "
            f"{_shown(selected.start)}"
        )
    return selected


def bounds(selected: KeyRange) -> tuple[str, str]:
    """First key and exclusive end. After a key ``k`` the next possible text is ``k`` and NUL."""
    if selected.end is None:
        return selected.start, selected.start + "\0"
    return selected.start, selected.end


def prefix_end(prefix: str) -> str:
    """The smallest text above everything that begins with a prefix, of ASCII characters.

    The last character moves on by one; those that cannot are cut off first. A prefix of nothing
    but DEL has no successor in ASCII: no key begins like that, so its range is refused.
    """
    kept = prefix.rstrip("\x7f")
    if not kept:
        raise InvalidArgument(f"nothing can be above all keys that begin with {_shown(prefix)}")
    return kept[:-1] + chr(ord(kept[-1]) + 1)


def directories_of(key: str) -> list[str]:
    """Every directory a key is in, the root first: ``/``, ``/a/``, ``/a/b/`` for ``/a/b/c``."""
    found = []
    at = key.find("/")
    while at >= 0:
        found.append(key[: at + 1])
        at = key.find("/", at + 1)
    return found


def _check_length(text: str) -> str:
    if len(text) > KEY_BYTES_MAX:
        raise LimitExceeded(
            f"key {_shown(text)} has {len(text)} bytes, the limit is {KEY_BYTES_MAX}"
        )
    return text


def _what_is_wrong(key: str) -> str:
    if not key.startswith("/"):
        return "it must begin with '/'"
    if key.endswith("/"):
        return "only a directory ends with '/'"
    for segment in key[1:].split("/"):
        if not segment:
            return "'//' has no name between its slashes"
        if segment in (".", ".."):
            return f"'{segment}' is not a name"
    return "a name has letters, digits and -._~!$&'()*+,;=:@% only"


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 64 else text[:63] + "…")
