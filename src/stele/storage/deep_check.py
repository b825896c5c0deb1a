"""Reading fragments and logs to their end: what is wrong with each, if anything is.

Whoever checks a directory hands over paths and gets sentences back, so that one process can do the
reading, or many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from stele.env.ports import FileSystem
from stele.errors import NotFound, Stop
from stele.storage.fragment_check import check_fragment
from stele.storage.log_replay import replay
from stele.storage.log_seal import peek, sealed_entries

UNREADABLE = (Stop, NotFound)
"""What makes a file or a log useless; everything else is a reason to try again later."""

Examine = Callable[[Sequence[str], Sequence[str]], Mapping[str, str]]
"""Reads fragments and log directories; what is wrong, by path, and nothing for those in order."""


def examine_here(fs: FileSystem) -> Examine:
    """Read one after the other, in this process."""

    def examine(fragments: Sequence[str], logs: Sequence[str]) -> Mapping[str, str]:
        found = {path: wrong_with_fragment(fs, path) for path in fragments}
        found |= {log: wrong_with_log(fs, log) for log in logs}
        return {path: wrong for path, wrong in found.items() if wrong is not None}

    return examine


def wrong_with_fragment(fs: FileSystem, path: str) -> str | None:
    """Checksums, order and bounds of a file."""
    try:
        check_fragment(fs, path)
    except UNREADABLE as error:
        return str(error)
    return None


def wrong_with_log(fs: FileSystem, directory: str) -> str | None:
    """Every entry of a log whose writer is gone, and the cells in it."""
    try:
        deque(replay(sealed_entries(fs, directory, peek(fs, directory))), maxlen=0)
    except UNREADABLE as error:
        return str(error)
    return None
