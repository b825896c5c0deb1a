"""Reads a log directory back: every complete entry, in order, or the place where it is damaged.

What a crash may leave, and nothing else, is forgiven:

* In the *last* file, what follows the last complete entry. An entry starts only when the one
  before it is durable, so at most one entry can be torn, and only at the end. If anything later
  than the bad place proves to be an entry of this file, the bad place was once durable: that is
  damage, and is reported with file and offset.
* Behind what was written into the last file, the zeros that it was reserved with, or what it held
  when it was another file (``log_spares``): entries with another mark.
* A last file with a torn header and nothing behind it: the writer died while making it.
* Missing files at the beginning, if the log says that they were given up.

Everything else is ``Corruption``. A bit that flips in the very last entry looks like a torn write
and cannot be told from one, unless the log was closed (then its last entry holds no commits) or
sealed (then its exact length is on record, and nothing at all is forgiven).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crc32c import crc32c

from stele.env.ports import FileSystem, RandomFile
from stele.errors import Corruption, NotFound, UnsupportedFormat
from stele.storage.log_format import (
    ALIGNMENT,
    BODY_BYTES_MAX,
    ENTRY_HEADER_BYTES,
    FILE_HEADER_BYTES,
    FLAGS_KNOWN,
    EntryHeader,
    FileHeader,
    decode_entry_header,
    decode_file_header,
    file_name,
    header_checksum,
    padded,
)
from stele.storage.log_parts import PartKind, decode_body, decode_release
from stele.storage.log_segments import list_files

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FIRST_FILE = 1

READ_AHEAD_BYTES = 1024 * 1024
"""One read for many small entries."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One complete entry, as it was found."""

    file: str
    offset: int
    header: EntryHeader
    body: memoryview

    @property
    def body_offset(self) -> int:
        """Where the body begins in its file."""
        return self.offset + ENTRY_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Position:
    """The end of some complete entry: everything before it is known to be whole."""

    sequence: int
    offset: int
    index: int
    chain: int
    clock: int
    """The largest txn so far."""
    is_last: bool
    """The writer said that nothing follows in this file."""


class _Window:
    """Bytes of a file up to a length, read ahead in large pieces."""

    def __init__(self, file: RandomFile, length: int) -> None:
        self._file = file
        self.length = length
        self._start = 0
        self._data = memoryview(b"")

    def get(self, offset: int, size: int) -> memoryview:
        """Exactly those bytes, or fewer where the file ends before its length says."""
        assert offset + size <= self.length
        if offset < self._start or offset + size > self._start + len(self._data):
            wanted = min(max(size, READ_AHEAD_BYTES), self.length - offset)
            self._start, self._data = offset, memoryview(self._file.pread(offset, wanted))
        return self._data[offset - self._start : offset - self._start + size]


class FileReader:
    """The entries of one file, up to ``length`` bytes of it."""

    def __init__(self, file: RandomFile, sequence: int, length: int) -> None:
        self._window = _Window(file, length)
        self._path = file.path
        self._sequence = sequence
        self.header = self._read_header()
        self.position = Position(
            sequence=sequence,
            offset=FILE_HEADER_BYTES,
            index=self.header.first_index - 1,
            chain=header_checksum(bytes(self._window.get(0, FILE_HEADER_BYTES))),
            clock=self.header.clock,
            is_last=False,
        )

    def _read_header(self) -> FileHeader:
        available = min(self._window.length, FILE_HEADER_BYTES)
        header = decode_file_header(bytes(self._window.get(0, available)), self._path)
        if header.sequence != self._sequence:
            raise Corruption(
                f"file header is of file {header.sequence}, not {self._sequence}",
                file=self._path,
                offset=0,
            )
        return header

    def entries(self) -> Iterator[Entry]:
        """Entries from the beginning; ``position`` follows them.

        Ends at the length, or raises ``Corruption`` at the first place that is no entry.
        """
        while self.position.offset < self._window.length:
            entry = self._read_entry()
            header = entry.header
            self.position = Position(
                sequence=self._sequence,
                offset=entry.offset + header.entry_bytes,
                index=header.index,
                chain=header.checksum,
                clock=header.txn_max,
                is_last=header.is_last,
            )
            yield entry

    def _read_entry(self) -> Entry:
        at = self.position
        if at.is_last:
            raise self._bad("bytes follow the last entry of the file")
        left = self._window.length - at.offset
        if left < ENTRY_HEADER_BYTES:
            raise self._bad("entry header is cut short")
        raw = self._window.get(at.offset, ENTRY_HEADER_BYTES)
        header = self._sound_header(raw, 0) if len(raw) == ENTRY_HEADER_BYTES else None
        if header is None:
            raise self._bad("entry header does not match its checksum")
        if header.index != at.index + 1 or header.chain != at.chain:
            raise self._bad(f"entry {header.index} does not follow entry {at.index}")
        if header.txn_min < at.clock or header.txn_max < header.txn_min:
            raise self._bad(f"txns {header.txn_min} to {header.txn_max} follow txn {at.clock}")
        if header.body_bytes > BODY_BYTES_MAX or header.entry_bytes > left:
            raise self._bad(f"entry body of {header.body_bytes} bytes is cut short")
        size = padded(header.body_bytes)
        body = self._window.get(at.offset + ENTRY_HEADER_BYTES, size)
        if len(body) != size or crc32c(body) != header.body_checksum:
            raise self._bad("entry body does not match its checksum")
        return Entry(self._path, at.offset, header, body[: header.body_bytes])

    def _sound_header(self, data: ReadableBuffer, offset: int) -> EntryHeader | None:
        header = decode_entry_header(data, offset, self.header.mark)
        if header is not None and header.flags & ~FLAGS_KNOWN:
            raise UnsupportedFormat(
                f"{self._path}: entry {header.index} has flags {header.flags:#x}; this program "
                f"knows {FLAGS_KNOWN:#x}"
            )
        return header

    def entries_of_last_file(self) -> Iterator[Entry]:
        """Like ``entries``, but what a crash may leave behind the last of them is passed over."""
        try:
            yield from self.entries()
        except Corruption:
            if self.later_entry() is not None:
                raise

    def _bad(self, reason: str) -> Corruption:
        return Corruption(reason, file=self._path, offset=self.position.offset)

    def later_entry(self) -> int | None:
        """Where, behind the current position, an entry begins that was written after this place.

        Its header is proof enough: it was written only once all before it was durable.
        """
        mark, at = self.header.mark, self.position
        torn = at.index if at.is_last else at.index + 1
        """The number of an entry that may have been begun and not finished."""
        offset = at.offset if at.is_last else at.offset + ALIGNMENT
        while self._window.length - offset >= ENTRY_HEADER_BYTES:
            size = min(READ_AHEAD_BYTES, self._window.length - offset)
            data = bytes(self._window.get(offset, size))
            found = data.find(mark)
            while 0 <= found <= size - ENTRY_HEADER_BYTES:
                header = self._sound_header(data, found) if found % ALIGNMENT == 0 else None
                if header is not None and header.index > torn:
                    return offset + found
                found = data.find(mark, found + 1)
            # Pieces overlap, so that a header across a border is seen whole once.
            offset += max(size - ENTRY_HEADER_BYTES, ALIGNMENT)
        return None


def open_last_file(file: RandomFile, sequence: int, length: int) -> FileReader | None:
    """The last file of a log, or ``None`` if its writer died while making it.

    Entries are written behind a header that is durable, so only a file that holds nothing else may
    have a bad one.
    """
    try:
        return FileReader(file, sequence, length)
    except Corruption:
        if length > FILE_HEADER_BYTES:
            raise
        return None


class LogReader:
    """All files of a log directory.

    ``lengths`` are the recorded lengths of a sealed log, by file; then nothing is forgiven. Without
    them the log is read as it is found, which its writer may still be adding to.
    """

    def __init__(
        self, fs: FileSystem, directory: str, lengths: Mapping[int, int] | None = None
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._lengths = lengths
        self._low_water = FIRST_FILE
        self.position: Position | None = None
        """The end of what has been read so far."""

    def entries(self) -> Iterator[Entry]:
        """Every complete entry, in order. Consume all of them: what is missing shows at the end."""
        present = list_files(self._fs, self._directory)
        sequences = present if self._lengths is None else sorted(self._lengths)
        run = last_run(sequences, set(present))
        first = run[0] if run else sequences[-1] + 1 if sequences else FIRST_FILE
        for sequence in run:
            try:
                with self._fs.open_read(self._path(sequence)) as file:
                    yield from self._file_entries(file, sequence, is_last=sequence == sequences[-1])
            except (NotFound, Corruption):
                if self._fs.exists(self._path(sequence)):
                    raise
                # Its writer still lives, and gave it up while it was read. What was read of it is
                # in fragments too.
                self.position, first = None, sequence + 1
        if first > self._low_water:
            raise Corruption("log file is missing", file=self._path(first - 1))

    def _path(self, sequence: int) -> str:
        return f"{self._directory}/{file_name(sequence)}"

    def _file_entries(self, file: RandomFile, sequence: int, is_last: bool) -> Iterator[Entry]:
        forgiving = is_last and self._lengths is None
        length = file.size() if self._lengths is None else self._lengths[sequence]
        if is_last and length == 0:
            return  # nothing of it is on record
        reader: FileReader | None
        if forgiving:
            reader = open_last_file(file, sequence, length)
            if reader is None:
                return
        else:
            reader = FileReader(file, sequence, length)
        self._check_follows(file, reader)
        for entry in reader.entries_of_last_file() if forgiving else reader.entries():
            if entry.header.has_release:
                self._release(entry)
            yield entry
        self.position = reader.position
        if not is_last and not reader.position.is_last:
            raise Corruption(
                "file ends without its last entry", file=file.path, offset=reader.position.offset
            )

    def _check_follows(self, file: RandomFile, reader: FileReader) -> None:
        """A file begins where the one before it ended."""
        self._low_water = max(self._low_water, reader.header.low_water)
        before = self.position
        if before is None:
            return
        if (reader.header.first_index, reader.header.chain) != (before.index + 1, before.chain):
            raise Corruption("file does not follow the one before it", file=file.path, offset=0)

    def _release(self, entry: Entry) -> None:
        for part in decode_body(entry.body):
            if part.kind is PartKind.RELEASE:
                self._low_water = max(self._low_water, decode_release(part))


def last_run(sequences: Sequence[int], present: Container[int]) -> list[int]:
    """The files at the end without a gap between them; what is before a gap was given up."""
    run: list[int] = []
    for sequence in reversed(sequences):
        if sequence not in present or (run and sequence != run[0] - 1):
            break
        run.insert(0, sequence)
    return run
