"""Row ranges: half-open, ``[start, end)``, with ``end=None`` for "to the last row".

Half-open ranges tile without gaps or overlaps, and the exclusive end is also the key under which
a tablet's configuration is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.limits import ROW_BYTES_MAX


@dataclass(frozen=True, slots=True)
class RowRange:
    """All rows ``r`` with ``start <= r < end``; never empty, see :func:`intersect`."""

    start: bytes = b""
    end: bytes | None = None

    def __post_init__(self) -> None:
        if self.end is not None and self.end <= self.start:
            raise InvalidArgument(
                f"row range is empty: its end {self.end!r} is not above its start {self.start!r}"
            )

    @staticmethod
    def prefix(prefix: bytes) -> RowRange:
        """All rows that begin with ``prefix``."""
        return RowRange(prefix, prefix_end(prefix))

    @staticmethod
    def row(row: bytes) -> RowRange:
        """The range that holds exactly one row."""
        return RowRange(row, row + b"\x00")

    def contains(self, row: bytes) -> bool:
        return self.start <= row and (self.end is None or row < self.end)

    def covers(self, other: RowRange) -> bool:
        """Whether every row of ``other`` is also in this range."""
        if other.start < self.start:
            return False
        return self.end is None or (other.end is not None and other.end <= self.end)

    def intersect(self, other: RowRange) -> RowRange | None:
        """The rows in both, or ``None`` when there are none."""
        start = max(self.start, other.start)
        end = min_end(self.end, other.end)
        if end is not None and end <= start:
            return None
        return RowRange(start, end)

    def overlaps(self, other: RowRange) -> bool:
        return self.intersect(other) is not None

    def __str__(self) -> str:
        return f"[{self.start!r}, {'∞' if self.end is None else repr(self.end)})"


EVERYTHING = RowRange()


def min_end(a: bytes | None, b: bytes | None) -> bytes | None:
    """The smaller of two exclusive ends, where ``None`` is larger than every row."""
    if a is None:
        return b
    return a if b is None else min(a, b)


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest row above every row that begins with ``prefix``; ``None`` if there is none."""
    trimmed = prefix.rstrip(b"\xff")
    if not trimmed:
        return None
    return trimmed[:-1] + bytes([trimmed[-1] + 1])


def normalise(ranges: Iterable[RowRange]) -> tuple[RowRange, ...]:
    """Sort ranges and join those that touch or overlap."""
    joined: list[RowRange] = []
    for current in sorted(ranges, key=lambda r: r.start):
        last = joined[-1] if joined else None
        if last is None or (last.end is not None and last.end < current.start):
            joined.append(current)
        elif last.end is not None and (current.end is None or current.end > last.end):
            joined[-1] = RowRange(last.start, current.end)
    return tuple(joined)


def check_row(row: object) -> bytes:
    """The row key itself, or a typed error that says what is wrong with it."""
    if not isinstance(row, bytes):
        raise InvalidArgument(f"a row key is bytes, not {type(row).__name__}: {row!r}")
    if not row:
        raise InvalidArgument("a row key is at least one byte long")
    if len(row) > ROW_BYTES_MAX:
        raise LimitExceeded(
            f"row key of {len(row)} bytes, beginning {row[:32]!r}, is over the limit of "
            f"{ROW_BYTES_MAX} bytes"
        )
    return row
