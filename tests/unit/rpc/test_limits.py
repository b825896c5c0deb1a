"""Limits that contradict themselves are refused by name."""

from __future__ import annotations

from dataclasses import fields

import pytest

from stele.errors import InvalidArgument
from stele.rpc.limits import Limits


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1])
def test_every_limit_is_above_zero(name: str, value: int) -> None:
    with pytest.raises(InvalidArgument, match=name):
        Limits(**{name: value})


def test_a_ping_comes_before_the_verdict() -> None:
    with pytest.raises(InvalidArgument, match="keepalive_us"):
        Limits(keepalive_us=5, silence_us=5)


def test_pausing_comes_before_cutting() -> None:
    with pytest.raises(InvalidArgument, match="outbox_bytes_soft"):
        Limits(outbox_bytes_soft=10, outbox_bytes_max=10)


def test_a_full_frame_fits_the_queues() -> None:
    limits = Limits()
    assert limits.frame_bytes_max <= limits.inflight_bytes_max
    assert limits.frame_bytes_max <= limits.outbox_bytes_max
