"""What has to be known to recover the logs of a dead owner somewhere else.

A value that travels to executors: the pieces of the sealed logs, the tablets that were in them with
their flush marks, and where new files go. The directory's files are its only state, so whoever has
this and sees them can do any part of the work, twice as well as once.
"""

from __future__ import annotations

import msgspec

from stele.model.ranges import RowRange
from stele.storage.log_pieces import LogPiece
from stele.storage.references import Marks


class LostTablet(msgspec.Struct, frozen=True):
    """A tablet whose last owner is gone: what its marks cover is in files already."""

    rows: RowRange
    marks: Marks
    log: str | None
    """Where its owner logged; ``None`` if it was unloaded in order."""


class LostTableWork(msgspec.Struct, frozen=True):
    """A table and its tablets, in row order."""

    table: str
    name: str
    schema_json: str
    tablets: tuple[LostTablet, ...]


class RecoveryWork(msgspec.Struct, frozen=True, kw_only=True):
    """All of a directory."""

    location: str
    """The absolute path of the directory; all other paths are inside of it."""
    fragments: str
    """Where new files go."""
    token: str
    """What their names begin with: of a session that is dead once they are nobody's."""
    tables: tuple[LostTableWork, ...]
    pieces: tuple[LogPiece, ...]

    @property
    def log_bytes(self) -> int:
        """How much has to be read."""
        return sum(piece.length for piece in self.pieces)
