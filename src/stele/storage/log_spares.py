"""Log files that nobody needs any more, kept to be written once more.

Syncing an entry is quickest where the file has its place on the disk and was written there before:
then the file system has nothing to note down, and the sync waits neither for its journal nor for
what other files have in it. Ahead of small entries that is reached by writing zeros
(``log_writer``); for large ones a file that was full once is the only way that costs nothing.

    00000003.log  ── released ──▶  00000003.spare  ── a new file is due ──▶  00000007.log

A spare has a name that is no log file's before anything in it is overwritten, and the directory is
synced in between: no crash can leave a file that has one's name and another's contents. It gets
the name of the new file when the header of that is durable in it. What it still holds of the old
one is behind the new, and does not pass for it: every file has a mark of its own.

Threads: some keep, another takes. Once it is closed nothing is renamed or deleted any more, so that
whoever opens the directory next is alone with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import NotFound, SteleError
from stele.storage.log_format import file_name, spare_name

SPARES_MAX = 8
"""About what a flush gives back at a time: more would be disk space that nobody uses."""

SPARE_BYTES_FACTOR = 2
"""A file that one huge entry has blown up to more than so many times the usual size is not kept."""

AFTER_DELETE = declare("storage.log.after_delete")
AFTER_SPARED = declare("storage.log.after_spared")
AFTER_SPARED_SYNC = declare("storage.log.after_spared_sync")


class SpareFiles:
    """The spare files of one log directory."""

    def __init__(self, fs: FileSystem, directory: str, file_bytes: int) -> None:
        """``file_bytes`` is where files of this log end, about."""
        self._fs = fs
        self._directory = directory
        self._bytes_max = SPARE_BYTES_FACTOR * file_bytes
        self._spares: deque[str] = deque()
        self._keeping = threading.Lock()
        self._closed = False

    def take(self) -> str | None:
        """The path of a file to write over, which is the caller's now."""
        try:
            return self._spares.popleft()
        except IndexError:
            return None

    def keep_or_delete(self, sequences: Iterable[int]) -> list[int]:
        """Files that a *durable* release part has given up: as spares, or away with them.

        Deletions are not synced: a file that comes back after a crash is ignored by readers and
        deleted the next time. Returns those that were there.
        """
        with self._keeping:
            if self._closed:
                return []
            kept: list[str] = []
            try:
                found = [number for number in sequences if self._has_given_up(number, kept)]
                if kept:
                    self._fs.sync_dir(self._directory)
                    failpoint(AFTER_SPARED_SYNC)
            except SteleError:
                self._delete(kept)  # nobody would know of them
                raise
            self._spares.extend(kept)
            return found

    def _has_given_up(self, sequence: int, kept: list[str]) -> bool:
        """Rename a file, which is then among those that are kept, or delete it; if it is there."""
        path = f"{self._directory}/{file_name(sequence)}"
        spare = f"{self._directory}/{spare_name(sequence)}"
        try:
            if len(self._spares) + len(kept) < SPARES_MAX and self._is_usual(path):
                self._fs.rename(path, spare)
                kept.append(spare)
                failpoint(AFTER_SPARED)
            else:
                self._fs.delete(path)
                failpoint(AFTER_DELETE)
        except NotFound:
            return False
        return True

    def give_back(self) -> bool:
        """The disk is full: delete what is kept, as far as that works; whether there was any."""
        given = []
        while (spare := self.take()) is not None:
            given.append(spare)
        self._delete(given)
        return bool(given)

    def close(self) -> None:
        """The log ends: no more is kept, and nothing is. Waits for who is at it. Idempotent."""
        with self._keeping:
            self._closed = True
        self.give_back()

    def _delete(self, spares: Iterable[str]) -> None:
        for spare in spares:
            with suppress(SteleError):
                self._fs.delete(spare)

    def _is_usual(self, path: str) -> bool:
        with self._fs.open_read(path) as file:
            return file.size() <= self._bytes_max
