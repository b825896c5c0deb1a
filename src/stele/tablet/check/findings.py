"""What a check can find: one kind for each promise that META, files and logs keep to each other.

A *note* is what a crash may leave and the store clears away by itself. Everything else is
*damage*: something was lost or written wrongly, and serving on could make it worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """Whether anybody has to worry."""

    NOTE = "note"
    DAMAGE = "damage"


class Kind(Enum):
    """What is wrong. The value is the name in ``--json``."""

    GAP = "gap"
    FIRST_ROW_NOT_EMPTY = "first-row-not-empty"
    NO_LAST_TABLET = "no-last-tablet"
    HALF_SPLIT = "half-split"
    OVERLAP = "overlap"
    BACKWARD_RANGE = "backward-range"
    DUPLICATE_ID = "duplicate-id"
    UNREADABLE_CONFIG = "unreadable-config"
    REFERENCE_OUTSIDE = "reference-outside"
    MARK_OUTSIDE = "mark-outside"
    AHEAD_OF_CLOCK = "ahead-of-clock"
    MISSING_FILE = "missing-file"
    SHORT_FILE = "short-file"
    WRONG_FILE = "wrong-file"
    DAMAGED_FILE = "damaged-file"
    ORPHAN_FILE = "orphan-file"
    MISSING_LOG = "missing-log"
    DAMAGED_LOG = "damaged-log"
    UNKNOWN_TABLE = "unknown-table"
    NO_TABLETS = "no-tablets"

    @property
    def severity(self) -> Severity:
        return Severity.NOTE if self in _NOTES else Severity.DAMAGE


_NOTES = frozenset({Kind.ORPHAN_FILE, Kind.UNKNOWN_TABLE})
"""A flush or a new table that was cut off by a crash."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Kind
    table: str
    """The id of the table it is about; empty for a file that nobody refers to."""
    subject: str
    """Which one: a tablet's id, a META key, the name of a file or of a log."""
    detail: str
    """A sentence for people."""
    start: bytes = b""
    end: bytes | None = None
    """The rows concerned, where it is about rows."""

    def as_json(self) -> dict[str, str | None]:
        """For ``--json``; keys of rows as Python would print them, without the quotes."""
        return {
            "kind": self.kind.value,
            "severity": self.kind.severity.value,
            "table": self.table,
            "subject": self.subject,
            "detail": self.detail,
            "start": printable(self.start),
            "end": None if self.end is None else printable(self.end),
        }

    def __str__(self) -> str:
        return f"{self.kind.severity.value}: {self.kind.value}: {self.detail}"


def printable(row: bytes) -> str:
    """A row key as text; other bytes as ``\\x..``."""
    return repr(row)[2:-1]
