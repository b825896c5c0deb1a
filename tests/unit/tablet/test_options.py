"""The knobs of an engine."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import InvalidArgument
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions
from stele.tablet.split_policy import SizeLimits


def test_the_defaults_are_consistent() -> None:
    options = EngineOptions()
    assert options.background
    assert options.flush.budget_bytes >= 2 * options.flush.memory_bytes


@pytest.mark.parametrize("name", ["cache_bytes", "log_file_bytes"])
@pytest.mark.parametrize("value", [0, -1, "1 MB", True])
def test_a_size_that_cannot_be_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(
        InvalidArgument, match=rf"{name} is a number of bytes from \d+, not {value!r}"
    ):
        EngineOptions(**{name: value})  # type: ignore[arg-type]


def test_a_log_file_has_room_for_something() -> None:
    EngineOptions(log_file_bytes=1024)
    with pytest.raises(InvalidArgument, match="log_file_bytes is a number of bytes from 1024"):
        EngineOptions(log_file_bytes=1023)


def test_a_budget_that_one_table_would_fill_is_refused() -> None:
    EngineOptions(flush=FlushLimits(memory_bytes=50, budget_bytes=100))
    with pytest.raises(InvalidArgument, match="budget of 99 bytes is too small for flushes of 50"):
        EngineOptions(flush=FlushLimits(memory_bytes=50, budget_bytes=99))


@pytest.mark.parametrize("value", ["no", 0, 1, None])
def test_background_is_a_truth_value(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="background is True or False, not"):
        EngineOptions(background=value)


@pytest.mark.parametrize("name", ["flush", "compaction", "sizes"])
def test_limits_are_of_their_type(name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name} is of type \w+Limits, not 5"):
        EngineOptions(**{name: 5})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["x", -1, True, 1.5, None])
def test_every_limit_is_a_number(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="flush: log_bytes is a whole number from 0, not"):
        EngineOptions(flush=FlushLimits(log_bytes=value))


def test_ratios_may_be_broken_numbers() -> None:
    EngineOptions(flush=FlushLimits(log_weight=1))
    with pytest.raises(InvalidArgument, match="sizes: join_ratio is a number from 0, not 'x'"):
        EngineOptions(sizes=SizeLimits(join_ratio="x"))  # type: ignore[arg-type]
