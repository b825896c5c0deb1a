"""Unions of byte ranges against testing each range."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.byte_ranges import LIST_BYTES, ByteRanges, in_ranges
from stele.kernels.jit import quick
from stele.kernels.memory import address_of
from stele.model.ranges import EVERYTHING, RowRange


@quick
def holds(ranges: int, number: int, text: bytes) -> bool:
    return in_ranges(ranges + LIST_BYTES * number, address_of(text), len(text))


texts = st.lists(st.sampled_from([b"\x00", b"a", b"b", b"\xff"]), max_size=10).map(b"".join)


@st.composite
def ranges(draw: st.DrawFn) -> RowRange:
    start, end = sorted((draw(texts), draw(texts)))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return RowRange.row(start)
    if kind == 1:
        return RowRange.prefix(start)
    return RowRange(start, end if end > start else None)


@settings(max_examples=300)
@given(st.lists(st.lists(ranges(), max_size=5), max_size=4), st.lists(texts, max_size=10))
def test_a_string_is_in_a_list_iff_one_range_holds_it(
    lists: list[list[RowRange]], strings: list[bytes]
) -> None:
    table = ByteRanges(lists)
    assert table.count == len(lists)
    edges = [edge for one in lists for part in one for edge in (part.start, part.end or b"")]
    for text in [*strings, *edges]:
        for number, one in enumerate(lists):
            expected = any(part.contains(text) for part in one)
            assert holds(table.address, number, text) is expected


def test_everything_and_nothing() -> None:
    table = ByteRanges([[EVERYTHING], []])
    assert holds(table.address, 0, b"")
    assert not holds(table.address, 1, b"")
    assert ByteRanges([]).count == 0
