"""Column names, families, and selections against a brute-force reading of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.columns import (
    EVERY_COLUMN,
    HIDDEN_FAMILIES,
    Column,
    ColumnSelection,
    FamilySelection,
    check_family,
    check_qualifier,
    column_name,
    qualifier_range,
)
from stele.model.limits import FAMILY_BYTES_MAX, QUALIFIER_BYTES_MAX, READ_COLUMNS_MAX
from stele.model.ranges import RowRange
from tests.unit.model.strategies import families, nasty_bytes, nasty_text


@given(families, nasty_bytes)
def test_names_round_trip(family: str, qualifier: bytes) -> None:
    column = Column(family, qualifier)
    assert Column.parse(column.name) == column
    assert Column.parse(family.encode() + b":" + qualifier) == column
    assert Column.parse(column) is column
    assert column_name(family, qualifier) == column.name


@given(families, nasty_text)
def test_text_names_are_utf8(family: str, text: str) -> None:
    assert Column.parse(f"{family}:{text}") == Column(family, text.encode())


def test_the_first_colon_separates() -> None:
    assert Column.parse("info:a:b") == Column("info", b"a:b")
    assert Column.parse("info:") == Column("info", b"")
    assert Column.parse(b"info:\xff").name == b"info:\xff"
    assert str(Column.parse(b"info:\xff")) == "info:\\xff"


def test_long_names_parse_like_short_ones() -> None:
    qualifier = b"q" * QUALIFIER_BYTES_MAX
    assert Column.parse(b"f:" + qualifier) == Column("f", qualifier)
    with pytest.raises(LimitExceeded, match=f"{QUALIFIER_BYTES_MAX + 1} bytes"):
        Column.parse(b"f:q" + qualifier)


def test_columns_sort_like_cells() -> None:
    columns = [Column("a", b""), Column("a", b"\x00"), Column("a", b"\xff"), Column("ab", b"")]
    assert all(before < after for before, after in pairwise(columns))


@pytest.mark.parametrize("name", ["age", "", b"age", ":q", "a b:q", "é:q", "_retry:q", "\ud800:q"])
def test_bad_names_are_refused(name: str | bytes) -> None:
    with pytest.raises(InvalidArgument):
        Column.parse(name)


@pytest.mark.parametrize("name", [3, None, ["a:b"], bytearray(b"a:b")])
def test_names_of_another_type_are_refused(name: object) -> None:
    with pytest.raises(InvalidArgument, match=type(name).__name__):
        Column.parse(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "0", "-", ".", "x" * FAMILY_BYTES_MAX])
def test_good_families(name: str) -> None:
    assert check_family(name) == name
    assert check_family(name.encode()) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "at least one"),
        ("a:b", "A-Za-z"),
        ("é", "A-Za-z"),
        ("a\n", "A-Za-z"),
        (b"\xff", "A-Za-z"),
        ("_x", "reserved"),
        (7, "int"),
        ("x" * (FAMILY_BYTES_MAX + 1), str(FAMILY_BYTES_MAX)),
        *((name, "reserved") for name in HIDDEN_FAMILIES),
    ],
)
def test_bad_families(name: object, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        check_family(name)


def test_qualifiers_are_bytes() -> None:
    assert check_qualifier(b"") == b""
    with pytest.raises(InvalidArgument, match="str"):
        check_qualifier("q")


selectors = st.one_of(
    families.map(lambda family: f"{family}:"),
    st.builds(Column, families, nasty_bytes),
    st.builds(FamilySelection.prefix, families, nasty_bytes),
    st.builds(FamilySelection.between, families, nasty_bytes),
)


def selects(selector: str | Column | FamilySelection, family: str, qualifier: bytes) -> bool:
    """What a selector means, said plainly."""
    if isinstance(selector, str):
        return selector == f"{family}:"
    if isinstance(selector, Column):
        return (selector.family, selector.qualifier) == (family, qualifier)
    inside = any(
        one.start <= qualifier and (one.end is None or qualifier < one.end)
        for one in selector.ranges
    )
    return selector.family == family and inside


@given(st.lists(selectors, max_size=5), families, nasty_bytes)
def test_a_selection_is_the_union_of_its_selectors(
    chosen: list[str | Column | FamilySelection], family: str, qualifier: bytes
) -> None:
    selection = ColumnSelection.parse(chosen)
    expected = any(selects(one, family, qualifier) for one in chosen)
    assert selection.contains(family, qualifier) == expected
    if expected:
        assert family in selection.column_set
    assert selection.families is not None
    assert ColumnSelection(selection.families) == selection
    names = [part.family for part in selection.families]
    assert names == sorted(set(names))


@given(st.lists(selectors, max_size=5))
def test_a_selection_does_not_depend_on_the_order_of_selectors(
    chosen: list[str | Column | FamilySelection],
) -> None:
    assert ColumnSelection.parse(chosen) == ColumnSelection.parse(chosen[::-1])


def test_selection_of_everything_and_of_nothing() -> None:
    assert ColumnSelection.parse(None) is EVERY_COLUMN
    assert EVERY_COLUMN.is_everything
    assert EVERY_COLUMN.contains("any", b"thing")
    assert EVERY_COLUMN.column_set.is_everything
    nothing = ColumnSelection.parse([])
    assert not nothing.is_everything
    assert not nothing.contains("a", b"")
    assert nothing.column_set.is_empty


def test_a_colon_alone_selects_the_family_and_a_column_its_empty_qualifier() -> None:
    assert ColumnSelection.parse("info:").ranges("info") == (RowRange(),)
    only = ColumnSelection.parse(Column("info", b""))
    assert only.contains("info", b"")
    assert not only.contains("info", b"\x00")
    assert ColumnSelection.parse(["info:x", "info:"]).families == (FamilySelection("info"),)
    assert FamilySelection("info").is_whole_family
    assert not FamilySelection.prefix("info", b"a").is_whole_family
    assert FamilySelection.prefix("info", b"a").contains(b"ab")
    assert not FamilySelection.prefix("info", b"a").contains(b"b")


def test_bad_selections() -> None:
    with pytest.raises(InvalidArgument, match="no colon"):
        ColumnSelection.parse(["info"])
    with pytest.raises(InvalidArgument, match="qualifier range is empty"):
        qualifier_range(b"b", b"a")
    with pytest.raises(InvalidArgument, match="no qualifiers"):
        FamilySelection("a", ())
    with pytest.raises(LimitExceeded, match=str(READ_COLUMNS_MAX)):
        ColumnSelection.parse(Column("a", b"%d" % number) for number in range(READ_COLUMNS_MAX + 1))
