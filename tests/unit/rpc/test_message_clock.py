"""Knowledge of time travels with every frame."""

from __future__ import annotations

import pytest

from stele.errors import ClockSkew
from stele.model.clock import HybridClock
from stele.rpc.events import Closed
from stele.rpc.message_clock import HybridMessageClock
from tests.unit.rpc.support import Pair


class Wall:
    """A wall clock that stands."""

    def __init__(self, now_us: int):
        self.time_us = now_us

    def now_us(self) -> int:
        return self.time_us

    def monotonic_us(self) -> int:
        return self.time_us


def test_it_sends_the_largest_value_and_advances() -> None:
    hybrid = HybridClock(100)
    clock = HybridMessageClock(hybrid, Wall(200))
    assert clock.stamp() == 100
    clock.witness(300)
    assert clock.stamp() == hybrid.last == 300


def test_a_clock_too_far_ahead_is_refused() -> None:
    clock = HybridMessageClock(HybridClock(100, max_skew_us=10), Wall(200))
    with pytest.raises(ClockSkew):
        clock.witness(211)
    assert clock.stamp() == 100


def test_both_ends_of_a_connection_learn() -> None:
    client, server = HybridClock(500), HybridClock(900)
    pair = Pair(
        client_clock=HybridMessageClock(client, Wall(1000)),
        server_clock=HybridMessageClock(server, Wall(1000)),
    )
    assert (client.last, server.last) == (900, 900)
    client.next(1200)
    pair.request()
    pair.to_server()
    assert server.last == 1200


def test_a_peer_with_a_mad_clock_is_cut() -> None:
    mad, sane = HybridClock(10_000_000), HybridClock(max_skew_us=1000)
    pair = Pair(
        client_clock=HybridMessageClock(mad, Wall(1)),
        server_clock=HybridMessageClock(sane, Wall(2000)),
        greet=False,
    )
    pair.pump()
    client_events, server_events = pair.events()
    for events in (client_events, server_events):
        assert isinstance(events[-1], Closed)
        assert isinstance(events[-1].error, ClockSkew)
    assert sane.last == 0
