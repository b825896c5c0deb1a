"""Cutting the rows of lost tables into parts, each sorted and written by one task.

Every table is one line of rows. It is cut where the log has gathered enough bytes, as samples of it
show: at the border of a tablet, if one is near, so that a file belongs to one; inside of a tablet
that has more than its share; and many small tablets make one part together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from stele.model.ranges import RowRange
from stele.storage.read_plan import KeySample
from stele.storage.recovery_work import LostTableWork

PART_BYTES = 64 << 20
"""Log that one task sorts, about: it is all in memory at once."""

PART_BYTES_MIN = 4 << 20
"""Less than this is not worth a task."""


class Part(msgspec.Struct, frozen=True):
    """Rows of one table."""

    table: str
    rows: RowRange


def part_bytes(log_bytes: int, parallelism: int) -> int:
    """How much log a part should have, so that all processors have something to do."""
    return max(PART_BYTES_MIN, min(PART_BYTES, log_bytes // parallelism))


def cut_parts(
    tables: Sequence[LostTableWork], samples: Mapping[str, Sequence[KeySample]], wanted_bytes: int
) -> list[Part]:
    """The parts of all tables, each table covered from end to end."""
    return [
        Part(lost.table, rows)
        for lost in tables
        for rows in _ranges(lost, samples.get(lost.table, ()), wanted_bytes)
    ]


def _ranges(
    lost: LostTableWork, samples: Sequence[KeySample], wanted_bytes: int
) -> Iterator[RowRange]:
    borders = {tablet.rows.start for tablet in lost.tablets[1:]}
    sizes = Counter[bytes]()
    for sample in samples:
        sizes[sample.row] += sample.size_bytes
    start, gathered = b"", 0
    for row in sorted(borders | sizes.keys()):
        enough = wanted_bytes // 2 if row in borders else wanted_bytes
        if gathered >= max(enough, 1):
            yield RowRange(start, row)
            start, gathered = row, 0
        gathered += sizes[row]
    yield RowRange(start)
