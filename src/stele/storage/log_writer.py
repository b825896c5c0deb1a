"""Writes entries into the files of one log directory, each entry with one write and one sync.

One thread at a time; the queue and the waiting are ``stele.storage.group_commit``. A writer starts
a directory of its own, which belongs to one session, and never appends to what is there: whatever
happened, a file has one writer from its first to its last byte.

The order of durable steps:

    create file → write header → sync file → sync directory      before the file's first entry
    write header into a spare → sync it → rename it → sync directory                 the same
    write entry → sync file                                       before anything is acknowledged

A file is longer than what is in it while it is written: its place is reserved some way ahead, so
that a sync has only the entry to write and not the file's new length, which takes almost as long
again. Ahead of small entries it is filled with zeros as well, so that their syncs leave the file
system's journal alone; large ones would pay more for that than they gain, and have spare files
(``log_spares``), which were written before. The entry that is the last of a file cuts it to its
end, before it is synced.

An entry starts only when the one before it is durable. A reader relies on that: where it
finds a later entry, an earlier one that is damaged was once whole.

``OutOfSpace`` leaves the writer as it was, and the same or another entry may be tried again. After
any other error it is unusable.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem, Random, WritableFile
from stele.errors import (
    AlreadyExists,
    InvalidArgument,
    OutOfSpace,
    SteleError,
    StorageFailed,
    Unavailable,
)
from stele.storage.log_format import (
    ENTRY_HEADER_BYTES,
    FILE_HEADER_BYTES,
    FLAG_LAST,
    FLAG_RELEASE,
    MARK_BYTES,
    FileHeader,
    check_session,
    encode_entry_header,
    file_name,
    header_checksum,
)
from stele.storage.log_parts import Body, Commit, PartKind, encode_body, released_file
from stele.storage.log_segments import Written
from stele.storage.log_spares import SpareFiles

ROLL_BYTES_DEFAULT = 16 * 1024 * 1024
"""A file is closed by the entry that takes it over this: the unit in which log space is freed, and
in which files are written once more. Starting one takes as long as one or two syncs."""

ROLL_BYTES_MIN = 1024

RESERVE_BYTES_MIN = 64 * 1024
RESERVE_BYTES_DEFAULT = 16 * 1024 * 1024
"""As much is reserved as the file holds, at least and at most this, up to where it rolls."""

SMALL_ENTRY_BYTES_MAX = 16 * 1024
FILLED_BYTES_MAX = 256 * 1024
"""What is filled at a time ahead of small entries: the one whose sync writes it waits longer."""

AFTER_CREATE = declare("storage.log.after_create")
AFTER_HEADER_WRITE = declare("storage.log.after_header_write")
AFTER_HEADER_SYNC = declare("storage.log.after_header_sync")
AFTER_NAMED = declare("storage.log.after_named")
AFTER_DIRECTORY_SYNC = declare("storage.log.after_directory_sync")
AFTER_RESERVE = declare("storage.log.after_reserve")
AFTER_WRITE = declare("storage.log.after_write")
AFTER_TRIM = declare("storage.log.after_trim")
AFTER_SYNC = declare("storage.log.after_sync")


class LogWriter:
    """The one writer of a log directory. Not safe for threads."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        session: str,
        random: Random,
        *,
        clock: int = 0,
        roll_bytes: int = ROLL_BYTES_DEFAULT,
        reserve_bytes: int = RESERVE_BYTES_DEFAULT,
    ) -> None:
        """``clock`` is a txn that nothing in this log will be at or below.

        At most ``reserve_bytes`` of a file are reserved ahead; with 0, none.
        """
        if roll_bytes < ROLL_BYTES_MIN:
            raise InvalidArgument(f"roll_bytes is {roll_bytes}, below {ROLL_BYTES_MIN}")
        self._fs = fs
        self._directory = directory
        self._session = check_session(session)
        self._random = random
        self._roll_bytes = roll_bytes
        self._reserve_bytes = reserve_bytes
        self._clock = clock
        self.spares = SpareFiles(fs, directory, roll_bytes)
        """Files to be written once more. Whoever releases files adds to them, in any thread."""
        self._sequence = 0
        self._index = 0
        self._chain = 0
        self._low_water = 1
        self._file: WritableFile | None = None
        self._mark: bytes | None = None
        """Of the open file, once its header and its name are durable."""
        self._unnamed: FileHeader | None = None
        """The durable header of a file whose name is not durable yet."""
        self._reserved = 0
        """How long the open file is, if it is longer than what is in it."""
        self._failed = False
        self._start_directory()

    def _start_directory(self) -> None:
        self._fs.mkdir(self._directory)
        found = self._fs.list(self._directory)
        if found:
            raise AlreadyExists(
                f"log directory {self._directory!r} is not new: it holds {found[0]!r}; a log "
                f"belongs to one session and is never appended to by another"
            )

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def clock(self) -> int:
        """The largest txn that is durable here."""
        return self._clock

    def write(self, commits: Sequence[Commit]) -> Written:
        """Make commits durable as one entry, in the order of their txns."""
        assert commits
        assert commits[0].txn > self._clock, "txns rise from one entry to the next"
        return self._durably(commits, last=False)

    def close(self) -> Written | None:
        """End the log: readers then know that nothing is missing at its end. Idempotent."""
        self.spares.close()
        if self._file is None:
            return None
        written = None
        if not self._failed and self._mark is not None:
            written = self._durably((), last=True)
        self._close_file()
        return written

    def abandon(self) -> None:
        """Let go of the file and leave it as it is."""
        self._failed = True
        self._close_file()

    def _durably(self, commits: Sequence[Commit], *, last: bool) -> Written:
        if self._failed:
            raise StorageFailed(f"log {self._directory!r} failed before")
        try:
            body = encode_body(commits, self._clock)
            written = self._write_where_there_is_room(body, last=last)
            if body.has_release:
                self._note_releases(commits)
            return written
        except OutOfSpace:
            raise
        except BaseException:
            self._failed = True
            raise

    def _write_where_there_is_room(self, body: Body, *, last: bool) -> Written:
        """Write an entry; on a full disk, where spare files were."""
        while True:
            try:
                if self._mark is None:
                    self._open_file()
                return self._write_entry(body, last=last)
            except OutOfSpace:
                if not self.spares.give_back():
                    raise

    def _note_releases(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            if commit.kind is PartKind.RELEASE:
                self._low_water = max(self._low_water, released_file(commit))

    def _open_file(self) -> None:
        """The next file, or the one that did not get so far when it was last tried."""
        path = f"{self._directory}/{file_name(self._sequence + 1)}"
        if self._file is None:
            self._file = self._overwrite_spare() or self._fs.create(path)
            failpoint(AFTER_CREATE)
        if self._unnamed is None:
            self._unnamed = self._write_header(self._file)
            if self._file.path != path:
                self._name_spare(self._file.path, path)
        try:
            self._fs.sync_dir(self._directory)
        except Unavailable as error:  # no descriptor is left, and so far nobody needs this file
            raise OutOfSpace(str(error)) from error
        failpoint(AFTER_DIRECTORY_SYNC)
        header, self._unnamed = self._unnamed, None
        self._sequence += 1
        self._reserved = self._file.length if self._file.length > FILE_HEADER_BYTES else 0
        self._mark = header.mark
        self._chain = header_checksum(header.encode())

    def _overwrite_spare(self) -> WritableFile | None:
        spare = self.spares.take()
        if spare is None:
            return None
        try:
            return self._fs.overwrite(spare)
        except OutOfSpace:
            self._delete_spare(spare)
            raise

    def _write_header(self, file: WritableFile) -> FileHeader:
        header = FileHeader(
            session=self._session,
            sequence=self._sequence + 1,
            mark=self._random.bytes(MARK_BYTES),
            chain=self._chain,
            first_index=self._index + 1,
            low_water=self._low_water,
            clock=self._clock,
        )
        file.write(header.encode())
        failpoint(AFTER_HEADER_WRITE)
        file.sync()
        failpoint(AFTER_HEADER_SYNC)
        return header

    def _name_spare(self, spare: str, path: str) -> None:
        """The header is durable: now it is a log file."""
        try:
            self._fs.rename(spare, path)
        except OutOfSpace:
            self._close_file()
            self._delete_spare(spare)
            raise
        failpoint(AFTER_NAMED)

    def _delete_spare(self, spare: str) -> None:
        with suppress(SteleError):
            self._fs.delete(spare)

    def _write_entry(self, body: Body, *, last: bool) -> Written:
        assert self._file is not None
        assert self._mark is not None
        end = self._file.position + ENTRY_HEADER_BYTES + body.size
        last = last or end >= self._roll_bytes
        header, chain = encode_entry_header(
            self._mark,
            index=self._index + 1,
            txns=body.txns,
            body_bytes=body.size,
            body_checksum=body.checksum,
            chain=self._chain,
            commits=body.commits,
            flags=(FLAG_LAST if last else 0) | (FLAG_RELEASE if body.has_release else 0),
        )
        if not last and end > self._reserved and self._reserve_bytes:
            self._reserve(end, is_small=body.size <= SMALL_ENTRY_BYTES_MAX)
        self._file.write(header, *body.buffers)
        failpoint(AFTER_WRITE)
        if last and self._reserved:
            self._file.trim()
            failpoint(AFTER_TRIM)
        self._file.sync()
        failpoint(AFTER_SYNC)
        assert self._file.position == end >= FILE_HEADER_BYTES + ENTRY_HEADER_BYTES
        self._chain = chain
        self._index += 1
        self._clock = body.txns[1]
        if last:
            self._close_file()
        return Written(self._sequence, end, body.txns, body.spans, last)

    def _reserve(self, needed: int, *, is_small: bool) -> None:
        """Make the file long enough for the next entry, and for more."""
        assert self._file is not None
        ahead_max = min(FILLED_BYTES_MAX, self._reserve_bytes) if is_small else self._reserve_bytes
        ahead = min(max(needed, RESERVE_BYTES_MIN), ahead_max)
        self._reserved = max(min(needed + ahead, self._roll_bytes), needed)
        self._file.reserve(self._reserved, filled=is_small)
        failpoint(AFTER_RESERVE)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        self._mark, self._unnamed, self._reserved = None, None, 0
        if file is not None:
            with suppress(SteleError):  # it is synced, or given up: closing changes neither
                file.close()
