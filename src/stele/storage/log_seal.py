"""Sealing: how a log directory changes hands.

The session that owned a log is over, but its process may not know yet. Whoever recovers the log
takes two steps, each decided by the first to take it:

1. ``SEALED`` appears in the directory. From now on the old writer acknowledges nothing: it looks
   for this file after each sync and before each answer (:func:`seal_fence`).
2. ``LENGTHS`` records how much of each file counts. It ends with a complete entry, made durable
   first, so everything on record is whole; whatever the old writer still adds is not on record.

The two cannot be one: lengths measured before the writer is stopped would cut off what it
acknowledged in between. All recoverers read exactly what is on record, so they agree, today and
after any crash; and a bit that flips in a sealed log is found wherever it is.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from crc32c import crc32c

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem, RandomFile
from stele.errors import AlreadyExists, Corruption, NotFound, TabletNotServing, UnsupportedFormat
from stele.storage.log_format import LENGTHS_NAME, SEALED_NAME, file_name
from stele.storage.log_reader import Entry, FileReader, LogReader, Position, open_last_file
from stele.storage.log_segments import list_files

LENGTHS_MAGIC = b"STELELEN"
LENGTHS_VERSION = 1

_HEAD = struct.Struct("<8sHHIQqI")
_FILE = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")

AFTER_SEALED = declare("storage.log.after_sealed")
AFTER_TAIL_SYNC = declare("storage.log.after_tail_sync")
AFTER_LENGTHS = declare("storage.log.after_lengths")


@dataclass(frozen=True, slots=True)
class Seal:
    """What of a log counts."""

    lengths: dict[int, int]
    """By file; the last may be 0 if its writer died while making it."""
    index: int
    """Of the last entry; 0 for none."""
    chain: int
    """Checksum of the last entry."""
    clock: int
    """The largest txn in the log."""

    def encode(self) -> bytes:
        head = _HEAD.pack(
            LENGTHS_MAGIC,
            LENGTHS_VERSION,
            0,
            len(self.lengths),
            self.index,
            self.clock,
            self.chain,
        )
        body = head + b"".join(_FILE.pack(*item) for item in sorted(self.lengths.items()))
        return body + _CHECKSUM.pack(crc32c(body))

    @staticmethod
    def decode(data: bytes, file: str) -> Seal:
        if len(data) < _HEAD.size + _CHECKSUM.size or data[: len(LENGTHS_MAGIC)] != LENGTHS_MAGIC:
            raise Corruption("not a record of log lengths", file=file, offset=0)
        if crc32c(data[: -_CHECKSUM.size]) != _CHECKSUM.unpack(data[-_CHECKSUM.size :])[0]:
            raise Corruption("lengths do not match their checksum", file=file, offset=0)
        _, version, _, count, index, clock, chain = _HEAD.unpack_from(data)
        if version != LENGTHS_VERSION:
            raise UnsupportedFormat(
                f"{file}: lengths of version {version}; this program knows {LENGTHS_VERSION}"
            )
        files = data[_HEAD.size : -_CHECKSUM.size]
        if len(files) != count * _FILE.size:
            raise Corruption(f"{count} files do not fit the record", file=file, offset=_HEAD.size)
        return Seal(dict(_FILE.iter_unpack(files)), index, chain, clock)


def is_sealed(fs: FileSystem, directory: str) -> bool:
    """Whether the directory's writer may not acknowledge anything any more."""
    return fs.exists(f"{directory}/{SEALED_NAME}")


def seal_fence(fs: FileSystem, directory: str) -> Callable[[], None]:
    """A fence for the directory's writer: raises once somebody else has sealed it, also when the
    log was recovered since and is gone as a whole."""

    path = f"{directory}/{SEALED_NAME}"

    def fence() -> None:
        if fs.exists(path) or not fs.exists(directory):
            raise TabletNotServing(
                f"log {directory!r} is sealed: the session that wrote it is over"
            )

    return fence


def seal(fs: FileSystem, directory: str, sealer: str) -> Seal:
    """Seal a log whose session is over, or find out how it was sealed. Safe to repeat.

    ``sealer`` is a name for people who look into the directory. The directory need not be there:
    its name is on record before it is made, and from now on nobody can start it.
    """
    fs.mkdir(directory)
    with suppress(AlreadyExists):
        fs.create_exclusive(f"{directory}/{SEALED_NAME}", f"sealed by {sealer}\n".encode())
    failpoint(AFTER_SEALED)
    found = read_seal(fs, directory)
    if found is not None:
        return found
    measured = _measure(fs, directory)
    failpoint(AFTER_TAIL_SYNC)
    try:
        fs.create_exclusive(f"{directory}/{LENGTHS_NAME}", measured.encode())
    except AlreadyExists:
        found = read_seal(fs, directory)
        assert found is not None
        return found
    failpoint(AFTER_LENGTHS)
    return measured


def read_seal(fs: FileSystem, directory: str) -> Seal | None:
    """The recorded lengths, or ``None`` while there are none."""
    path = f"{directory}/{LENGTHS_NAME}"
    try:
        data = fs.read_all(path)
    except NotFound:
        return None
    return Seal.decode(data, path)


def peek(fs: FileSystem, directory: str) -> Seal:
    """How a log is sealed, or how it would be. Changes nothing; its writer has to be gone."""
    return read_seal(fs, directory) or _measure(fs, directory, sync=False)


def _measure(fs: FileSystem, directory: str, *, sync: bool = True) -> Seal:
    """Where the complete entries end, after making all of them durable.

    A process that was killed leaves bytes that can be read and are not durable, so files are
    synced; after they were looked at, because the old writer may still be adding to the last.
    """
    lengths: dict[int, int] = {}
    end: Position | None = None
    for sequence in reversed(list_files(fs, directory)):
        with fs.open_read(f"{directory}/{file_name(sequence)}") as file:
            if end is not None:
                lengths[sequence] = file.size()  # has to be complete: reading it will show
            else:
                end = _end_of_entries(file, sequence, is_last=not lengths)
                lengths[sequence] = 0 if end is None else end.offset
        if sync:
            fs.sync_file(f"{directory}/{file_name(sequence)}")
    if sync:
        fs.sync_dir(directory)
    if end is None:
        return Seal(lengths, 0, 0, 0)
    return Seal(lengths, end.index, end.chain, end.clock)


def _end_of_entries(file: RandomFile, sequence: int, is_last: bool) -> Position | None:
    """Where the complete entries of a file end; ``None`` if it has not even a header."""
    if is_last:
        reader = open_last_file(file, sequence, file.size())
        if reader is None:
            return None
        deque(reader.entries_of_last_file(), maxlen=0)
        return reader.position
    # A later file was begun, so this one was complete and durable.
    reader = FileReader(file, sequence, file.size())
    deque(reader.entries(), maxlen=0)
    if not reader.position.is_last:
        raise Corruption(
            "file ends without its last entry", file=file.path, offset=reader.position.offset
        )
    return reader.position


def sealed_entries(fs: FileSystem, directory: str, sealed: Seal) -> Iterator[Entry]:
    """Exactly what is on record, and all of it, or ``Corruption``."""
    reader = LogReader(fs, directory, sealed.lengths)
    yield from reader.entries()
    end = reader.position
    found = (0, 0) if end is None else (end.index, end.chain)
    if found != (sealed.index, sealed.chain):
        raise Corruption(
            f"log ends with entry {found[0]} ({found[1]:#010x}), on record is {sealed.index} "
            f"({sealed.chain:#010x})",
            file=directory,
        )
