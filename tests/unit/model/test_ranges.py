"""Row ranges against a brute-force universe of short keys."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.limits import ROW_BYTES_MAX
from stele.model.ranges import EVERYTHING, RowRange, check_row, min_end, normalise, prefix_end

ALPHABET = (0x00, 0x01, 0x61, 0xFE, 0xFF)
UNIVERSE = [bytes(key) for size in range(4) for key in product(ALPHABET, repeat=size)]

keys = st.sampled_from([key for key in UNIVERSE if len(key) <= 2])


@st.composite
def ranges(draw: st.DrawFn) -> RowRange:
    start, end = sorted((draw(keys), draw(keys)))
    return RowRange(start, end if end > start and draw(st.booleans()) else None)


def members(one: RowRange) -> set[bytes]:
    return {key for key in UNIVERSE if one.contains(key)}


@given(ranges(), ranges())
def test_operations_agree_with_sets(a: RowRange, b: RowRange) -> None:
    both = a.intersect(b)
    assert (members(both) if both else set()) == members(a) & members(b)
    assert a.overlaps(b) == (both is not None)
    if a.covers(b):
        assert members(b) <= members(a)
        assert both == b


@given(ranges(), ranges())
def test_covers_means_that_the_intersection_is_the_other(a: RowRange, b: RowRange) -> None:
    assert a.covers(b) == (a.intersect(b) == b)


@given(st.lists(ranges(), max_size=6))
def test_normalise_keeps_the_rows_and_leaves_gaps(many: list[RowRange]) -> None:
    tidy = normalise(many)
    assert set().union(*map(members, tidy)) == set().union(*map(members, many))
    assert list(tidy) == sorted(tidy, key=lambda one: one.start)
    for before, after in pairwise(tidy):
        assert before.end is not None
        assert before.end < after.start
    assert normalise(tidy) == tidy


@given(keys)
def test_prefix_and_row(key: bytes) -> None:
    assert members(RowRange.prefix(key)) == {one for one in UNIVERSE if one.startswith(key)}
    assert members(RowRange.row(key)) == {key}


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"", None), (b"\xff\xff", None), (b"a", b"b"), (b"a\xff", b"b"), (b"a\x00", b"a\x01")],
)
def test_prefix_end(prefix: bytes, end: bytes | None) -> None:
    assert prefix_end(prefix) == end


def test_min_end_takes_none_for_infinity() -> None:
    assert min_end(None, None) is None
    assert min_end(None, b"a") == min_end(b"a", None) == min_end(b"a", b"b") == b"a"


def test_everything_has_every_row() -> None:
    assert members(EVERYTHING) == set(UNIVERSE)
    assert str(RowRange(b"a")) == "[b'a', ∞)"


@pytest.mark.parametrize("end", [b"", b"a", b"`"])
def test_an_empty_range_is_refused(end: bytes) -> None:
    with pytest.raises(InvalidArgument, match="is empty"):
        RowRange(b"a", end)


def test_check_row() -> None:
    longest = b"x" * ROW_BYTES_MAX
    assert check_row(longest) is longest
    with pytest.raises(LimitExceeded, match=f"{ROW_BYTES_MAX + 1} bytes.*{ROW_BYTES_MAX} bytes"):
        check_row(longest + b"x")
    with pytest.raises(InvalidArgument, match="at least one byte"):
        check_row(b"")
    for wrong in ("text", None, 3, bytearray(b"a")):
        with pytest.raises(InvalidArgument, match=type(wrong).__name__):
            check_row(wrong)
