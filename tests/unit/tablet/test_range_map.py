"""Rows to tablets (T6, T14)."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.model.ranges import EVERYTHING, RowRange
from stele.tablet.range_map import RangeMap


@dataclass(frozen=True)
class Piece:
    rows: RowRange


def tile(*borders: bytes) -> list[Piece]:
    starts = [b"", *borders]
    ends = [*borders, None]
    return [Piece(RowRange(a, b)) for a, b in zip(starts, ends, strict=True)]


def test_t6_t14_find_goes_by_half_open_ranges() -> None:
    lower, upper = tile(b"m")
    tablets = RangeMap([upper, lower])
    assert tablets.find(b"") is lower
    assert tablets.find(b"lzz") is lower
    assert tablets.find(b"m") is upper
    assert list(tablets) == [lower, upper]


def test_a_server_that_holds_only_some_tablets_has_gaps() -> None:
    pieces = tile(b"c", b"f", b"k")
    tablets = RangeMap([pieces[1], pieces[3]])
    assert tablets.find(b"a") is None
    assert tablets.find(b"g") is None
    assert tablets.gaps(EVERYTHING) == (RowRange(b"", b"c"), RowRange(b"f", b"k"))
    assert tablets.gaps(RowRange(b"c", b"d")) == ()
    assert tablets.gaps(RowRange(b"d", b"g")) == (RowRange(b"f", b"g"),)


def test_overlap_is_refused() -> None:
    with pytest.raises(AssertionError, match="overlap"):
        RangeMap([Piece(RowRange(b"", b"c")), Piece(RowRange(b"b", None))])


def test_replace_exchanges_and_leaves_the_old_map_alone() -> None:
    before = RangeMap(tile(b"m"))
    lower, upper = before
    halves = [Piece(RowRange(b"", b"g")), Piece(RowRange(b"g", b"m"))]
    after = before.replace([lower], halves)
    assert [p.rows for p in after] == [halves[0].rows, halves[1].rows, upper.rows]
    assert len(before) == 2
    with pytest.raises(AssertionError, match="not in the map"):
        after.replace([lower], [])


def test_neighbours_touch() -> None:
    pieces = tile(b"c", b"f", b"k")
    tablets = RangeMap([pieces[0], pieces[1], pieces[3]])
    assert tablets.neighbours(pieces[1]) == (pieces[0], None)
    assert tablets.neighbours(pieces[0]) == (None, pieces[1])
    assert tablets.neighbours(pieces[3]) == (None, None)


@given(st.sets(st.binary(min_size=1, max_size=3), max_size=8), st.binary(max_size=3))
def test_find_agrees_with_asking_every_piece(borders: set[bytes], row: bytes) -> None:
    pieces = tile(*sorted(borders))
    kept = pieces[::2]
    expected = [piece for piece in kept if piece.rows.contains(row)]
    assert RangeMap(kept).find(row) == (expected[0] if expected else None)


@given(
    st.sets(st.binary(min_size=1, max_size=2), max_size=6),
    st.binary(max_size=2),
    st.one_of(st.none(), st.binary(min_size=1, max_size=2)),
)
def test_overlapping_agrees_with_asking_every_piece(
    borders: set[bytes], start: bytes, end: bytes | None
) -> None:
    if end is not None and end <= start:
        start, end = end, (start + b"\x00")
    rows = RowRange(start, end)
    pieces = tile(*sorted(borders))
    expected = tuple(piece for piece in pieces if piece.rows.overlaps(rows))
    assert RangeMap(pieces).overlapping(rows) == expected
