"""The bytes of a log file: names, the file header, the entry header.

The grammar, with its odd cases, is docs/formats/log.md; this file is the constants that reader and
writer share. Every bit of a file is covered by a checksum or compared with something that is:

* a *file header* says whose file it is, which one, and what came before it;
* an *entry* is everything one sync made durable: a header and a body of parts
  (``stele.storage.log_parts``). Its header begins with the file's random *mark*, so that nothing a
  user stores can pass for an entry, and carries the checksum of the header before it, so that
  an entry that is out of place, stale or swapped does not fit.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crc32c import crc32c

from stele.errors import Corruption, InvalidArgument, UnsupportedFormat
from stele.model.limits import BATCH_BYTES_MAX, BATCH_CELLS_MAX

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ALIGNMENT = 8
"""Entries, parts and what is in them begin at multiples of this, filled up with zeros."""

MAGIC = b"STELELOG"
VERSION = 1
MARK_BYTES = 8

_FILE_HEADER = struct.Struct("<8sHHI8sQQQqB64s3xI")
FILE_HEADER_BYTES = _FILE_HEADER.size
assert FILE_HEADER_BYTES == 128

_ENTRY_HEADER = struct.Struct("<8sIIQqqIIB3xI")
_ENTRY_CHECKED = struct.Struct("<IQqqIIB3xI")
ENTRY_HEADER_BYTES = _ENTRY_HEADER.size
assert ENTRY_HEADER_BYTES == 56
_CHECKED_FROM = ENTRY_HEADER_BYTES - _ENTRY_CHECKED.size

CELL_OVERHEAD_BYTES = 56
"""What a cell may take beside its own bytes, as a row record or as a part of an Arrow batch."""

COMMIT_BYTES_MAX = BATCH_BYTES_MAX + BATCH_CELLS_MAX * CELL_OVERHEAD_BYTES
"""One commit, encoded: the largest batch there may be."""

BODY_BYTES_MAX = 2 * COMMIT_BYTES_MAX
"""Checked before a body is read. A group ends with the commit that takes it over its limit."""

SESSION_BYTES_MAX = 64
_SESSION = re.compile(r"[A-Za-z0-9.-]+")

SEQUENCE_DIGITS = 8
_FILE_NAME = re.compile(rf"(\d{{{SEQUENCE_DIGITS},}})\.log")

SEALED_NAME = "SEALED"
LENGTHS_NAME = "LENGTHS"
SPARE_SUFFIX = ".spare"

FLAG_LAST = 1
"""Nothing follows this entry in its file."""

FLAG_RELEASE = 2
"""The entry holds a release part, so that a reader need not look into every body for one."""

FLAGS_KNOWN = FLAG_LAST | FLAG_RELEASE


def padded(size: int) -> int:
    """``size`` rounded up to the alignment."""
    return (size + ALIGNMENT - 1) & -ALIGNMENT


def file_name(sequence: int) -> str:
    """The name of the file with that number; numbers too long for the padding just get longer."""
    return f"{sequence:0{SEQUENCE_DIGITS}d}.log"


def spare_name(sequence: int) -> str:
    """The name under which a file that nobody needs waits to be written once more."""
    return f"{sequence:0{SEQUENCE_DIGITS}d}{SPARE_SUFFIX}"


def file_sequence(name: str) -> int | None:
    """The number of a log file, or ``None`` if the name is not exactly one that we give."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    sequence = int(match[1])
    return sequence if sequence > 0 and file_name(sequence) == name else None


def check_session(session: str) -> str:
    """The session's name itself, if it can stand in a file header."""
    if not _SESSION.fullmatch(session) or len(session) > SESSION_BYTES_MAX:
        raise InvalidArgument(
            f"session {session[:80]!r} is not 1 to {SESSION_BYTES_MAX} characters of [A-Za-z0-9.-]"
        )
    return session


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The first 128 bytes of a log file."""

    session: str
    sequence: int
    mark: bytes
    chain: int
    """Checksum of the last entry of the file before; 0 in the first file."""
    first_index: int
    """The number of this file's first entry; entries are numbered from 1 through all files."""
    low_water: int
    """The first file that was still needed when this one was made."""
    clock: int
    """A value that all txns of earlier files are at or below."""

    def encode(self) -> bytes:
        session = self.session.encode("ascii")
        fields = (
            MAGIC,
            VERSION,
            0,
            self.chain,
            self.mark,
            self.sequence,
            self.first_index,
            self.low_water,
            self.clock,
            len(session),
            session,
        )
        return _with_checksum(_FILE_HEADER.pack(*fields, 0))


def _with_checksum(header: bytes) -> bytes:
    checksum: int = crc32c(header[:-4])
    return header[:-4] + checksum.to_bytes(4, "little")


def header_checksum(header: bytes) -> int:
    """The checksum in an encoded file header: what the first entry is chained to."""
    return int.from_bytes(header[FILE_HEADER_BYTES - 4 : FILE_HEADER_BYTES], "little")


def decode_file_header(data: bytes, file: str) -> FileHeader:
    """The header, or an error that names the file: foreign, damaged, or newer than we are."""
    if len(data) < FILE_HEADER_BYTES:
        raise Corruption(f"file header of {len(data)} bytes is cut short", file=file, offset=0)
    if data[: len(MAGIC)] != MAGIC:
        raise Corruption("not a log file: its magic is wrong", file=file, offset=0)
    if crc32c(data[: FILE_HEADER_BYTES - 4]) != header_checksum(data):
        raise Corruption("file header does not match its checksum", file=file, offset=0)
    (_, version, _, chain, mark, sequence, first_index, low_water, clock, length, session, _) = (
        _FILE_HEADER.unpack_from(data)
    )
    if version != VERSION:
        raise UnsupportedFormat(f"{file}: log version {version}; this program knows {VERSION}")
    name = session[:length].decode("ascii", "replace")
    return FileHeader(name, sequence, mark, chain, first_index, low_water, clock)


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """The first 56 bytes of an entry."""

    index: int
    txn_min: int
    txn_max: int
    body_bytes: int
    """Without the zeros that fill it up."""
    body_checksum: int
    chain: int
    """Checksum of the entry before; of the file header for a file's first entry."""
    commits: int
    flags: int
    checksum: int = 0
    """Of this header, set when it has been encoded or decoded."""

    @property
    def is_last(self) -> bool:
        return bool(self.flags & FLAG_LAST)

    @property
    def has_release(self) -> bool:
        return bool(self.flags & FLAG_RELEASE)

    @property
    def entry_bytes(self) -> int:
        """From the beginning of this entry to that of the next."""
        return ENTRY_HEADER_BYTES + padded(self.body_bytes)


def encode_entry_header(
    mark: bytes,
    *,
    index: int,
    txns: tuple[int, int],
    body_bytes: int,
    body_checksum: int,
    chain: int,
    commits: int,
    flags: int,
) -> tuple[bytes, int]:
    """The header, and its checksum for the next entry to be chained to."""
    checked = _ENTRY_CHECKED.pack(body_checksum, index, *txns, body_bytes, chain, flags, commits)
    checksum = crc32c(checked)
    return b"".join((mark, checksum.to_bytes(4, "little"), checked)), checksum


def decode_entry_header(data: ReadableBuffer, offset: int, mark: bytes) -> EntryHeader | None:
    """The header at an offset with at least 56 bytes, or ``None`` if there is no sound one."""
    found, checksum, body_checksum, index, txn_min, txn_max, body_bytes, chain, flags, commits = (
        _ENTRY_HEADER.unpack_from(data, offset)
    )
    if found != mark:
        return None
    checked = memoryview(data)[offset + _CHECKED_FROM : offset + ENTRY_HEADER_BYTES]
    if crc32c(checked) != checksum:
        return None
    return EntryHeader(
        index, txn_min, txn_max, body_bytes, body_checksum, chain, commits, flags, checksum
    )
