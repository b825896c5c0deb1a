"""How far back a table can be read."""

import pytest

from stele.errors import SnapshotTooOld
from stele.tablet.horizon import check_readable, next_horizon


def test_it_follows_the_clock_at_a_distance() -> None:
    assert next_horizon(0, now_us=1_000, history_us=100, held=[], durable=10_000) == 900


def test_leases_and_running_reads_hold_it() -> None:
    assert next_horizon(0, now_us=1_000, history_us=100, held=[500, 700], durable=10_000) == 500


def test_it_never_passes_what_is_durable() -> None:
    assert next_horizon(0, now_us=1_000, history_us=0, held=[], durable=300) == 300


def test_it_never_goes_back() -> None:
    assert next_horizon(800, now_us=100, history_us=50, held=[20], durable=900) == 800


def test_a_read_below_it_is_refused_with_advice() -> None:
    check_readable("users", 900, 900)
    with pytest.raises(SnapshotTooOld, match=r"users.*899.*begins at 900.*history"):
        check_readable("users", 899, 900)
