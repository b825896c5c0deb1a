"""Where tablets split and when they join (T16, T17)."""

from hypothesis import given
from hypothesis import strategies as st

from stele.model.ranges import EVERYTHING, RowRange
from stele.tablet.split_policy import (
    JoinFacts,
    RowSample,
    SizeLimits,
    choose_join,
    choose_split_row,
    wants_split,
)

LIMITS = SizeLimits(split_bytes=1_000)


def samples(**sizes: int) -> list[RowSample]:
    return [RowSample(row.encode(), size) for row, size in sizes.items()]


def test_t16_a_tablet_splits_above_the_limit() -> None:
    assert not wants_split(1_000, LIMITS)
    assert wants_split(1_001, LIMITS)


def test_t16_the_split_row_halves_the_bytes() -> None:
    found = choose_split_row(EVERYTHING, samples(a=10, b=10, c=10, d=10), LIMITS)
    assert found == b"c"


def test_rows_outside_the_tablet_are_not_chosen() -> None:
    rows = RowRange(b"c", b"f")
    assert choose_split_row(rows, samples(a=90, c=10, d=10, g=90), LIMITS) == b"d"


def test_one_row_cannot_be_split() -> None:
    assert choose_split_row(EVERYTHING, samples(a=500), LIMITS) is None
    assert choose_split_row(EVERYTHING, [], LIMITS) is None
    twice = [RowSample(b"a", 10), RowSample(b"a", 10)]
    assert choose_split_row(EVERYTHING, twice, LIMITS) is None


def test_a_hopelessly_uneven_split_is_not_made() -> None:
    assert choose_split_row(EVERYTHING, samples(a=1_000, b=1), LIMITS) is None


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.integers(1, 50)), max_size=20))
def test_a_split_row_exists_and_leaves_rows_on_both_sides(pairs: list[tuple[bytes, int]]) -> None:
    given_samples = [RowSample(row, size) for row, size in pairs]
    row = choose_split_row(EVERYTHING, given_samples, LIMITS)
    if row is not None:
        rows = {sample.row for sample in given_samples}
        assert row in rows
        assert any(other < row for other in rows)


def facts(
    name: str, start: bytes, end: bytes | None, size: int, protected: bool = False
) -> JoinFacts:
    return JoinFacts(name, RowRange(start, end), size, protected)


def test_t17_small_neighbours_join() -> None:
    tablets = [facts("a", b"", b"c", 200), facts("b", b"c", b"f", 40), facts("c", b"f", None, 20)]
    assert choose_join(tablets, LIMITS) == ("b", "c")


def test_t17_only_touching_neighbours_join() -> None:
    assert choose_join([facts("a", b"", b"c", 1), facts("b", b"d", None, 1)], LIMITS) is None


def test_a_border_the_user_asked_for_stays() -> None:
    tablets = [facts("a", b"", b"c", 1), facts("b", b"c", None, 1, protected=True)]
    assert choose_join(tablets, LIMITS) is None


def test_a_fresh_split_is_never_joined_again() -> None:
    half = LIMITS.split_bytes // 2
    assert choose_join([facts("a", b"", b"c", half), facts("b", b"c", None, half)], LIMITS) is None
