"""Paths inside a file system: relative, plain and bounded, whoever named them.

A path is ``""`` (the root) or names joined by ``/``. Refused are absolute paths, empty names,
``.`` and ``..``, NUL and other control characters, names above ``NAME_BYTES_MAX`` and paths above
``PATH_BYTES_MAX``. Nothing a caller passes can therefore leave the root by its spelling; symbolic
links are refused by the calls that open files.
"""

from __future__ import annotations

from functools import lru_cache

from stele.errors import InvalidArgument, LimitExceeded

NAME_BYTES_MAX = 255
"""What Linux allows."""

PATH_BYTES_MAX = 1024
"""Linux allows 4096 with the root in front."""

_FIRST_PRINTABLE = 0x20
_DELETE = 0x7F


@lru_cache(maxsize=4096)
def validated(path: str) -> str:
    """The path itself, if it is one."""
    if path == "":
        return path
    size = len(_encoded(path))
    if size > PATH_BYTES_MAX:
        raise LimitExceeded(f"path {path[:64]!r}… has {size} bytes, limit {PATH_BYTES_MAX}")
    for name in path.split("/"):
        _validate_name(name, path)
    return path


def _encoded(path: str) -> bytes:
    try:
        return path.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"path {path!r} is not valid Unicode") from error


def _validate_name(name: str, path: str) -> None:
    if name in ("", ".", ".."):
        raise InvalidArgument(f"path {path!r} must be relative, without empty names, '.' or '..'")
    if any(ord(letter) < _FIRST_PRINTABLE or ord(letter) == _DELETE for letter in name):
        raise InvalidArgument(f"path {path!r} contains a control character")
    size = len(name.encode())
    if size > NAME_BYTES_MAX:
        raise LimitExceeded(f"name {name[:64]!r}… has {size} bytes, limit {NAME_BYTES_MAX}")


def parent(path: str) -> str:
    """The directory a path is in; the root is its own parent."""
    return path.rpartition("/")[0]


def basename(path: str) -> str:
    """The last name of a path."""
    return path.rpartition("/")[2]


def join(directory: str, name: str) -> str:
    """The path of ``name`` in ``directory``."""
    return f"{directory}/{name}" if directory else name


def levels(path: str) -> list[str]:
    """Every directory on the way to ``path`` and itself, outermost first, without the root."""
    names = path.split("/") if path else []
    return ["/".join(names[: depth + 1]) for depth in range(len(names))]
