"""Moments and time ranges in every form, and those without meaning."""

from __future__ import annotations

import datetime

import pytest

from stele.client.times import micros, read_txn, time_bounds
from stele.errors import InvalidArgument, NotFound
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.schema import Schema
from tests.oracles.model_backend import ModelBackend

MOMENT = datetime.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=datetime.UTC)


def test_moments_are_microseconds() -> None:
    assert micros(MOMENT, "at") == 1_000_005
    paris = MOMENT.astimezone(datetime.timezone(datetime.timedelta(hours=2)))
    assert micros(paris, "at") == 1_000_005
    assert micros(-3, "at") == -3


@pytest.mark.parametrize("moment", [MOMENT.replace(tzinfo=None), 1.0, True, "now", None])
def test_a_wrong_moment_is_named(moment: object) -> None:
    with pytest.raises(InvalidArgument, match="until"):
        micros(moment, "until")


def test_time_ranges_may_be_open() -> None:
    assert time_bounds(None) == time_bounds((None, None)) == (TIMESTAMP_MIN, TIMESTAMP_MAX)
    assert time_bounds((MOMENT, 2_000_000)) == (1_000_005, 2_000_000)
    for wrong in (3, (1,), (1, 2, 3)):
        with pytest.raises(InvalidArgument, match="pair"):
            time_bounds(wrong)  # type: ignore[arg-type]


def test_at_names_a_snapshot_or_a_moment() -> None:
    table = ModelBackend().create_table("t", Schema())
    txn = table.snapshot("before")
    assert read_txn(table, "before") == txn
    assert read_txn(table, None) is None
    assert read_txn(table, MOMENT) == 1_000_005
    with pytest.raises(NotFound, match="'before'"):
        read_txn(table, "after")
