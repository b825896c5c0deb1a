"""A sealed log in pieces: each file read by whoever has time, and proof that it was all of it.

``LogReader`` reads the files of a log one after the other and sees on its way that each follows the
one before it. When many read one file each, they report what theirs begins and ends with, and
:func:`check_pieces` compares the reports with each other and with the record of the seal. Nothing
may depend on what was read before that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from stele.env.ports import FileSystem
from stele.errors import Corruption
from stele.storage.log_format import file_name
from stele.storage.log_parts import PartKind, decode_body, decode_release
from stele.storage.log_reader import FIRST_FILE, Entry, FileReader, last_run
from stele.storage.log_seal import Seal
from stele.storage.log_segments import list_files


class LogPiece(msgspec.Struct, frozen=True):
    """One file of a sealed log, up to the length on record."""

    directory: str
    sequence: int
    length: int

    @property
    def path(self) -> str:
        return f"{self.directory}/{file_name(self.sequence)}"


class PieceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a piece begins and ends with, as its reader has seen."""

    directory: str
    sequence: int
    first_index: int
    chain_before: int
    """Checksum of the entry before its first."""
    last_index: int
    chain: int
    """Checksum of its last entry."""
    low_water: int
    """Files below it were given up, as far as this piece says."""
    is_closed: bool
    """Whether its writer said that nothing follows in it."""


def pieces_of(fs: FileSystem, directory: str, sealed: Seal) -> tuple[LogPiece, ...]:
    """The files of a log that count, in order; an empty last one does not."""
    run = last_run(sorted(sealed.lengths), set(list_files(fs, directory)))
    last = max(sealed.lengths, default=0)
    return tuple(
        LogPiece(directory, sequence, sealed.lengths[sequence])
        for sequence in run
        if sequence != last or sealed.lengths[sequence]
    )


class PieceReader:
    """The entries of a piece, and then the facts."""

    def __init__(self, fs: FileSystem, piece: LogPiece):
        self._fs = fs
        self._piece = piece
        self.facts: PieceFacts | None = None
        """Known when all entries were read."""

    def entries(self) -> Iterator[Entry]:
        """Every entry, or ``Corruption``: nothing of a sealed log is forgiven."""
        piece = self._piece
        with self._fs.open_read(piece.path) as file:
            reader = FileReader(file, piece.sequence, piece.length)
            low_water = reader.header.low_water
            for entry in reader.entries():
                if entry.header.has_release:
                    low_water = max(low_water, _released(entry))
                yield entry
            end = reader.position
        self.facts = PieceFacts(
            directory=piece.directory,
            sequence=piece.sequence,
            first_index=reader.header.first_index,
            chain_before=reader.header.chain,
            last_index=end.index,
            chain=end.chain,
            low_water=low_water,
            is_closed=end.is_last,
        )


def _released(entry: Entry) -> int:
    parts = (part for part in decode_body(entry.body) if part.kind is PartKind.RELEASE)
    return max((decode_release(part) for part in parts), default=FIRST_FILE)


def check_pieces(directory: str, sealed: Seal, facts: Sequence[PieceFacts]) -> None:
    """``Corruption`` unless these are all pieces of a log, and follow each other to its end."""
    ordered = sorted(facts, key=lambda each: each.sequence)
    last = max(sealed.lengths, default=0)
    for each in ordered:
        if each.sequence != last and not each.is_closed:
            path = LogPiece(directory, each.sequence, 0).path
            raise Corruption("file ends without its last entry", file=path)
    for before, after in itertools.pairwise(ordered):
        path = LogPiece(directory, after.sequence, 0).path
        if after.sequence != before.sequence + 1:
            raise Corruption("not all files before it were read", file=path)
        if (after.first_index, after.chain_before) != (before.last_index + 1, before.chain):
            raise Corruption("file does not follow the one before it", file=path, offset=0)
    first = ordered[0].sequence if ordered else last + 1
    if first > max((each.low_water for each in ordered), default=FIRST_FILE):
        raise Corruption("log file is missing", file=LogPiece(directory, first - 1, 0).path)
    found = (ordered[-1].last_index, ordered[-1].chain) if ordered else (0, 0)
    if found != (sealed.index, sealed.chain):
        raise Corruption(
            f"log ends with entry {found[0]} ({found[1]:#010x}), on record is {sealed.index} "
            f"({sealed.chain:#010x})",
            file=directory,
        )
