"""Pieces cover every unit once, are even, and never smaller than is worth a file."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.model.column_set import ALL_COLUMNS
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.compact_policy import PIECE_BYTES_MAX, PIECE_BYTES_MIN, cut_units
from stele.storage.compaction_work import CompactionUnit
from stele.storage.read_plan import KeySample

MIB = 1 << 20


def unit(rows: RowRange, *samples: tuple[bytes, int]) -> CompactionUnit:
    return CompactionUnit(
        rows=rows,
        group="g",
        columns=ALL_COLUMNS,
        inputs=(),
        horizon=0,
        rooted=True,
        samples=tuple(KeySample(*sample) for sample in samples),
    )


SIZES = st.lists(st.integers(0, 64 * MIB), max_size=40)


@given(st.lists(SIZES, max_size=4), st.integers(1, 16))
@settings(max_examples=60, deadline=None)
def test_pieces_cover_every_unit_once(sizes: list[list[int]], parallelism: int) -> None:
    units = [
        unit(RowRange(b"b", b"x"), *((b"c%03d" % place, size) for place, size in enumerate(parts)))
        for parts in sizes
    ]
    tasks = cut_units(units, parallelism)
    pieces = [piece for task in tasks for piece in task]
    for number, each in enumerate(units):
        mine = [piece for piece in pieces if piece.unit == number]
        assert (mine[0].rows.start, mine[-1].rows.end) == (each.rows.start, each.rows.end)
        assert all(a.rows.end == b.rows.start for a, b in itertools.pairwise(mine))
        assert sum(piece.size_bytes for piece in mine) == each.size_bytes
        assert all(piece.size_bytes >= PIECE_BYTES_MIN for piece in mine[:-1])
    largest = max((size for parts in sizes for size in parts), default=0)
    assert all(piece.size_bytes <= PIECE_BYTES_MAX + largest for piece in pieces)
    assert all(tasks)


def test_small_units_share_a_task() -> None:
    units = [unit(RowRange(bytes([n]), bytes([n + 1])), (bytes([n]), MIB)) for n in range(20)]
    assert [len(task) for task in cut_units(units, 2)] == [8, 8, 4]


def test_a_unit_without_samples_is_one_piece() -> None:
    ((piece,),) = cut_units([unit(EVERYTHING)], 4)
    assert (piece.unit, piece.rows, piece.size_bytes) == (0, EVERYTHING, 0)
    assert cut_units([], 4) == []
