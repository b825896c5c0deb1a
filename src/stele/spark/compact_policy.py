"""Cutting a compaction into tasks: pure, from units and their key samples to pieces of them.

A large unit is cut into pieces of rows, each merged and written by itself, so that one large tablet
keeps many processors busy; small ones share a task. Every piece becomes files of its own, so pieces
are not made smaller than is worth a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stele.model.ranges import RowRange
from stele.storage.compaction_work import CompactionUnit

PIECE_BYTES_MIN = 8 << 20
PIECE_BYTES_MAX = 128 << 20
"""Files that a task reads, about: seconds of work, and little to do again."""

TASKS_PER_CORE = 3
"""So that a task that takes longer than others does not make them wait for it at the end."""


@dataclass(frozen=True, slots=True)
class UnitPiece:
    """Some rows of a unit."""

    unit: int
    rows: RowRange
    size_bytes: int


def cut_units(units: Sequence[CompactionUnit], parallelism: int) -> list[list[UnitPiece]]:
    """The pieces of each task, in row order; together they cover every unit, once."""
    total = sum(unit.size_bytes for unit in units)
    wanted = max(PIECE_BYTES_MIN, min(PIECE_BYTES_MAX, total // (parallelism * TASKS_PER_CORE)))
    tasks: list[list[UnitPiece]] = []
    room = 0
    for number, unit in enumerate(units):
        for piece in _pieces(number, unit, wanted):
            if not tasks or piece.size_bytes > room:
                tasks.append([])
                room = wanted
            tasks[-1].append(piece)
            room -= piece.size_bytes
    return tasks


def _pieces(number: int, unit: CompactionUnit, wanted: int) -> Iterator[UnitPiece]:
    start, size = unit.rows.start, 0
    for sample in unit.samples:
        if size >= wanted and sample.row > start:
            yield UnitPiece(number, RowRange(start, sample.row), size)
            start, size = sample.row, 0
        size += sample.size_bytes
    yield UnitPiece(number, RowRange(start, unit.rows.end), size)
