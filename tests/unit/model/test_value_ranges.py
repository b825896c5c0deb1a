"""Ranges of typed values against comparing the values."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.model.types import value_type
from stele.model.value_ranges import value_ranges
from tests.unit.model.typed_values import VALUES

small = {
    "int8": st.integers(-128, 127),
    "uint8": st.integers(0, 255),
    "float32": st.sampled_from([-math.inf, -2.0, -1e-40, -0.0, 0.0, 1e-40, 1.5, math.inf])
    | st.floats(width=32, allow_nan=False),
    "float64": st.sampled_from([-math.inf, -0.0, 0.0, math.inf]) | st.floats(allow_nan=False),
    "decimal128(5, 2)": VALUES["decimal128(5, 2)"],
}
ORDERED: dict[str, st.SearchStrategy[Any]] = {**VALUES, **small}


@given(st.sampled_from(sorted(ORDERED)), st.data())
@settings(max_examples=500)
def test_a_value_lies_in_the_ranges_iff_it_lies_between_the_bounds(
    name: str, data: st.DataObject
) -> None:
    kind = value_type(name)
    low = data.draw(st.none() | ORDERED[name])
    high = data.draw(st.none() | ORDERED[name])
    value = data.draw(ORDERED[name])
    ranges = value_ranges(kind, low, high)
    encoded = kind.encode(value)
    expected = (low is None or low <= value) and (high is None or value < high)
    assert any(one.contains(encoded) for one in ranges) == expected


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_nan_is_in_no_range_and_bounds_none(name: str) -> None:
    kind = value_type(name)
    for nan in (math.nan, -math.nan):
        assert not any(one.contains(kind.encode(nan)) for one in value_ranges(kind))
        with pytest.raises(InvalidArgument, match="NaN"):
            value_ranges(kind, low=nan)
        with pytest.raises(InvalidArgument, match="NaN"):
            value_ranges(kind, high=nan)


def test_zero_is_one_value_whatever_its_sign() -> None:
    kind = value_type("float64")
    for zero in (0.0, -0.0):
        assert any(one.contains(kind.encode(zero)) for one in value_ranges(kind, low=0.0))
        assert not any(one.contains(kind.encode(zero)) for one in value_ranges(kind, high=-0.0))


@pytest.mark.parametrize(
    ("name", "low", "high", "count"),
    [
        ("int64", -1, 1, 2),
        ("int64", 0, 5, 1),
        ("int64", -5, 0, 1),
        ("int64", 5, 5, 0),
        ("int64", 5, 4, 0),
        ("uint64", None, None, 1),
        ("string", "b", "a", 0),
        ("bool", True, None, 1),
        ("date32", datetime.date(1960, 1, 1), datetime.date(1980, 1, 1), 2),
        ("decimal128(5, 2)", Decimal(-1), Decimal(1), 2),
    ],
)
def test_there_are_no_more_ranges_than_needed(
    name: str, low: object, high: object, count: int
) -> None:
    assert len(value_ranges(value_type(name), low, high)) == count


def test_bounds_are_values_of_the_type() -> None:
    with pytest.raises(InvalidArgument, match="int8"):
        value_ranges(value_type("int8"), 128)
