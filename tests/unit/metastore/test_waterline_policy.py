"""When history is given up."""

from __future__ import annotations

from stele.metastore.waterline_policy import WaterlinePolicy


def test_history_is_kept_for_its_time_and_then_goes() -> None:
    policy = WaterlinePolicy(history_us=100, period_us=10)
    assert policy.tick(0, applied=5) is None
    assert policy.tick(99, applied=50) is None
    assert policy.tick(100, applied=60) == 5
    assert policy.tick(150, applied=60) is None
    assert policy.tick(199, applied=70) == 50


def test_notes_are_taken_once_a_period() -> None:
    policy = WaterlinePolicy(history_us=100, period_us=50)
    policy.tick(0, applied=1)
    policy.tick(10, applied=2)
    policy.tick(50, applied=3)
    assert policy.tick(149, applied=9) == 1
    assert policy.tick(150, applied=9) == 3


def test_a_new_leader_knows_nothing_of_the_past() -> None:
    policy = WaterlinePolicy(history_us=100, period_us=10)
    policy.tick(0, applied=5)
    policy.forget()
    assert policy.tick(100, applied=60) is None
    assert policy.tick(200, applied=70) == 60
