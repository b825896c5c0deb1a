"""Durations: text and numbers, both ways."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.model.durations import DURATION_US_MAX, US_PER_UNIT, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0", 0),
        ("250", 250),
        ("250us", 250),
        ("3ms", 3_000),
        ("90s", 90_000_000),
        ("15m", 900_000_000),
        ("24h", 86_400_000_000),
        (" 7d ", 604_800_000_000),
        (17, 17),
        (datetime.timedelta(hours=1, microseconds=1), 3_600_000_001),
    ],
)
def test_parse(text: object, micros: int) -> None:
    assert parse_duration(text) == micros


@given(st.integers(0, DURATION_US_MAX))
def test_round_trip(micros: int) -> None:
    text = format_duration(micros)
    assert parse_duration(text) == micros
    assert format_duration(parse_duration(text)) == text


def test_zero_has_no_unit() -> None:
    assert format_duration(0) == "0"


@given(st.integers(1, 1000), st.sampled_from(sorted(US_PER_UNIT)))
def test_the_canonical_text_is_the_shortest_of_its_kind(count: int, unit: str) -> None:
    written = f"{count}{unit}"
    assert len(format_duration(parse_duration(written))) <= len(written)


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "h", "-1", "1.5h", "1 h", "1w", "1H", "٣s", "1h30m", "1e3", "9" * 30, "1000001d"),
        *(None, True, 1.5, -1, DURATION_US_MAX + 1, datetime.timedelta(seconds=-1)),
    ],
)
def test_nonsense_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match="history"):
        parse_duration(wrong, "history")
