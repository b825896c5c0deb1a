"""Filters over bytes, against Python reading the same bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.filters import Filter, between, equal, prefix, regex, value_between
from stele.model.limits import READ_RANGES_MAX, REGEX_BYTES_MAX
from stele.model.ranges import RowRange
from stele.model.types import value_type
from tests.unit.model.strategies import nasty_bytes, sliced


@given(st.data(), st.lists(nasty_bytes, max_size=12), st.lists(nasty_bytes, max_size=3))
def test_ranges(data: st.DataObject, values: list[bytes], chosen: list[bytes]) -> None:
    array = data.draw(sliced(values, pa.binary()))
    assert equal("value", *chosen).mask(array).to_pylist() == [one in chosen for one in values]
    expected = [one.startswith(tuple(chosen)) for one in values]
    assert prefix("value", *chosen).mask(array).to_pylist() == expected


@given(st.lists(nasty_bytes, max_size=12), nasty_bytes, st.none() | nasty_bytes)
def test_between(values: list[bytes], start: bytes, end: bytes | None) -> None:
    mask = between("qualifier", start, end).mask(pa.array(values, pa.binary()))
    assert mask.to_pylist() == [start <= one and (end is None or one < end) for one in values]


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("b", b"abc", True),
        ("^b", b"abc", False),
        ("^abc$", b"abc", True),
        ("", b"", True),
        (r"^\xff\x00$", b"\xff\x00", True),
        ("^.$", b"\xff", True),
        ("^.$", "é".encode(), False),
        ("^é$", "é".encode(), True),
        ("^.$", b"\n", False),
        ("(?s)^.$", b"\n", True),
        ("(?i)ABC", b"xabcx", True),
        (r"^\d+$", b"123", True),
    ],
)
def test_regexes_are_over_bytes(pattern: str, value: bytes, matches: bool) -> None:
    assert regex("row", pattern).mask(pa.array([value])).to_pylist() == [matches]


@pytest.mark.parametrize("pattern", ["(", "a**", "[z-a]", "(?=a)", r"(a)\1", "a{1001}", "\ud800"])
def test_regexes_that_do_not_compile_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="on the value does not compile"):
        regex("value", pattern)


def test_a_catastrophic_pattern_is_harmless() -> None:
    mask = regex("value", "^(a+)+$").mask(pa.array([b"a" * 50_000 + b"!"]))
    assert mask.to_pylist() == [False]


def test_limits_and_shape() -> None:
    with pytest.raises(LimitExceeded, match=str(REGEX_BYTES_MAX)):
        regex("row", "a" * (REGEX_BYTES_MAX + 1))
    many = tuple(RowRange.row(b"%d" % number) for number in range(READ_RANGES_MAX + 1))
    with pytest.raises(LimitExceeded, match=str(READ_RANGES_MAX)):
        Filter("row", many)
    for wrong in ({}, {"ranges": (), "regex": "a"}):
        with pytest.raises(InvalidArgument, match="either ranges or a regex"):
            Filter("row", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["zz", "", None, ["row"], "timestamp"])
def test_a_field_that_is_none_is_refused_and_the_fields_are_named(field: Any) -> None:
    for make in (prefix, equal, between):
        with pytest.raises(InvalidArgument, match=r"one of row, qualifier, value, not "):
            make(field, b"x")
    with pytest.raises(InvalidArgument, match="one of row, qualifier, value"):
        regex(field, "x")


@pytest.mark.parametrize("value", ["x", 5, None, bytearray(b"x"), [b"x"]])
def test_only_bytes_are_compared(value: Any) -> None:
    said = f"on the row compares bytes, not {type(value).__name__}"
    for make in (prefix, equal, between):
        with pytest.raises(InvalidArgument, match=said):
            make("row", value)
    with pytest.raises(InvalidArgument, match="on the value compares bytes, not str"):
        between("value", b"a", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", [b"x", 5])
def test_a_regex_is_text(pattern: Any) -> None:
    with pytest.raises(InvalidArgument, match="regex on the row is text, not"):
        regex("row", pattern)


@pytest.mark.parametrize("ranges", [5, (5,), [RowRange()]])
def test_ranges_are_ranges(ranges: Any) -> None:
    with pytest.raises(InvalidArgument, match="tuple of RowRange"):
        Filter("row", ranges)


def test_ranges_are_tidied() -> None:
    assert Filter("row", (RowRange(b"b", b"c"), RowRange(b"a", b"b"))).ranges == (
        RowRange(b"a", b"c"),
    )
    assert between("row", b"b", b"a").ranges == ()


def test_typed_values() -> None:
    kind = value_type("int64")
    values = pa.array([kind.encode(number) for number in (-7, -2, 0, 3, 9)])
    assert value_between("int64", -2, 9).mask(values).to_pylist() == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert value_between(kind, high=-2).mask(values).to_pylist() == [True] + [False] * 4


@given(st.lists(nasty_bytes, max_size=3))
def test_json(values: list[bytes]) -> None:
    for one in (equal("value", *values), prefix("row", *values), regex("qualifier", "a|b")):
        assert msgspec.json.decode(msgspec.json.encode(one), type=Filter) == one
