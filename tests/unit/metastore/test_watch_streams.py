"""Watches as streams."""

from __future__ import annotations

import pytest

from stele.client.metastore_inline import InlineRunner, LocalAnswer
from stele.errors import Unavailable
from stele.metastore.watch_streams import LEADERLESS_TICKS, PROGRESS_TICKS, WatchStreams
from stele.protocol.metastore import WatchResponse
from stele.protocol.metastore_values import KeyRange
from tests.unit.metastore.embedded_support import Home


async def _next(stream: object) -> WatchResponse:
    response: WatchResponse = await anext(stream)  # type: ignore[call-overload]
    return response


def test_who_hears_nothing_is_told_how_far_it_is() -> None:
    home = Home()
    driver = home.node.driver
    streams = driver.watches
    stream = streams.stream(KeyRange("/w/", "/w0"), 0)
    runner = InlineRunner()
    first = runner.run(_next(stream))
    assert first.index == driver.machine.applied_index
    home.ms.put("/elsewhere", b"1")

    waiting = _next(stream)
    parked = waiting.send(None)
    assert isinstance(parked, LocalAnswer)
    for _ in range(PROGRESS_TICKS):
        streams.tick()
    assert parked.done()
    with pytest.raises(StopIteration) as end:
        waiting.send(None)
    assert end.value.value == WatchResponse(driver.machine.applied_index)


def test_a_state_that_was_replaced_ends_all_streams() -> None:
    home = Home()
    driver = home.node.driver
    streams = WatchStreams(driver.hub, driver.machine, LocalAnswer)
    stream = streams.stream(KeyRange("/w/", "/w0"), 0)
    runner = InlineRunner()
    runner.run(_next(stream))
    streams.interrupt()
    with pytest.raises(Unavailable, match="resume"):
        runner.run(_next(stream))
    assert len(driver.hub) == 0


def test_a_node_that_may_be_cut_off_ends_all_streams() -> None:
    home = Home()
    driver = home.node.driver
    streams = WatchStreams(driver.hub, driver.machine, LocalAnswer)
    runner = InlineRunner()
    for _ in range(2):
        stream = streams.stream(KeyRange("/w/", "/w0"), 0)
        runner.run(_next(stream))
        waiting = _next(stream)
        parked = waiting.send(None)
        for is_known in (*[False] * (LEADERLESS_TICKS - 1), True, *[False] * LEADERLESS_TICKS):
            assert not parked.done(), "it has had a leader"
            streams.note_leader(is_known=is_known)
        with pytest.raises(Unavailable, match="resume"):
            waiting.send(None)
