"""Which rows a log is about, from a look at a few of its files: enough to cut the work evenly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stele.env.ports import FileSystem
from stele.storage.log_pieces import LogPiece, PieceReader
from stele.storage.log_reader import Entry
from stele.storage.log_replay import Replayed, replay
from stele.storage.read_plan import KeySample

PIECES_MAX = 16
"""Files that are looked into."""

PIECE_BYTES = 1 << 20
"""Of each, from its beginning."""

ROWS_PER_BLOCK = 64


def sample_log(
    files: FileSystem, pieces: Sequence[LogPiece], tables: Sequence[str]
) -> dict[str, list[KeySample]]:
    """Rows of each table in order, each with about the bytes of the log that it stands for."""
    step = max(1, -(-len(pieces) // PIECES_MAX))
    chosen = pieces[::step]
    found = [row for piece in chosen for row in _rows(files, piece, tables)]
    size_bytes = sum(piece.length for piece in pieces) // max(1, len(found))
    samples: dict[str, list[KeySample]] = {}
    for table, row in sorted(found):
        samples.setdefault(table, []).append(KeySample(row, size_bytes))
    return samples


def _rows(files: FileSystem, piece: LogPiece, tables: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Rows of a piece, of each table as many as its share of the bytes."""
    blocks = list(replay(_beginning(PieceReader(files, piece).entries()), tables))
    total = max(1, sum(part.block.nbytes for part in blocks))
    for part in blocks:
        yield from _even_rows(part, -(-ROWS_PER_BLOCK * part.block.nbytes // total))


def _even_rows(part: Replayed, count: int) -> Iterator[tuple[str, bytes]]:
    block = part.block
    for number in range(min(count, block.count)):
        yield part.table, block.row(block.count * number // count)


def _beginning(entries: Iterator[Entry]) -> Iterator[Entry]:
    seen = 0
    for entry in entries:
        yield entry
        seen += len(entry.body)
        if seen >= PIECE_BYTES:
            return
