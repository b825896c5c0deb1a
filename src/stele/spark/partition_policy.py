"""Cutting what has to be merged into even parts, one for each task.

All tablets in a row are one line of key samples, each with the bytes that follow it. The line is
cut where its bytes divide evenly, inside tablets as well as between them, so a large tablet feeds
many tasks and many small ones share one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stele.model.ranges import RowRange
from stele.spark.routes import inside
from stele.storage.read_plan import KeySample, TabletPlan
from stele.storage.references import References

PARTITION_BYTES = 16 * 1024 * 1024
"""Bytes of files that one task merges, about: a second of work, and little to do again."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one tablet, and what holds them."""

    rows: RowRange
    references: References


def wanted_partitions(size_bytes: int, parallelism: int) -> int:
    """As many tasks as there are cores, or more when there is work for more."""
    return max(parallelism, -(-size_bytes // PARTITION_BYTES))


def merged_bytes(tablets: Iterable[TabletPlan], ranges: Sequence[RowRange]) -> int:
    """About the bytes that a read of ranges has to merge."""
    return sum(atom.size_bytes for atom in _atoms(tablets, ranges))


def cut_evenly(
    tablets: Sequence[TabletPlan], ranges: Sequence[RowRange], partitions: int
) -> list[tuple[Piece, ...]]:
    """What each task reads: at most ``partitions`` tasks, in row order, none without work."""
    atoms = list(_atoms(tablets, ranges))
    total = sum(atom.size_bytes for atom in atoms)
    tasks: dict[int, list[Piece]] = {}
    passed = 0
    for atom in atoms:
        number = passed * partitions // max(total, 1)
        passed += atom.size_bytes
        task = tasks.setdefault(number, [])
        before = task[-1] if task else None
        if before is not None and before.rows.end == atom.rows.start and not atom.begins_tablet:
            task[-1] = Piece(RowRange(before.rows.start, atom.rows.end), before.references)
        else:
            task.append(Piece(atom.rows, atom.references))
    return [tuple(pieces) for pieces in tasks.values()]


@dataclass(frozen=True, slots=True)
class _Atom:
    """Rows between two samples of one tablet, and of one wanted range."""

    rows: RowRange
    references: References
    size_bytes: int
    begins_tablet: bool


def _atoms(tablets: Iterable[TabletPlan], ranges: Sequence[RowRange]) -> Iterator[_Atom]:
    for tablet in tablets:
        begins = True
        for wanted in inside(ranges, tablet.rows):
            for rows, size_bytes in _parts(tablet, wanted):
                yield _Atom(rows, tablet.references, size_bytes, begins)
                begins = False


def _parts(tablet: TabletPlan, wanted: RowRange) -> Iterator[tuple[RowRange, int]]:
    """A range of a tablet, cut at its samples, each part with its bytes, at least one."""
    start, size_bytes = wanted.start, 1
    samples = tablet.samples
    first = bisect_left(samples, wanted.start, key=_row)
    last = len(samples) if wanted.end is None else bisect_left(samples, wanted.end, key=_row)
    for sample in samples[first:last]:
        if sample.row > start:
            yield RowRange(start, sample.row), size_bytes
            start, size_bytes = sample.row, 1
        size_bytes += sample.size_bytes
    yield RowRange(start, wanted.end), size_bytes


def _row(sample: KeySample) -> bytes:
    return sample.row
