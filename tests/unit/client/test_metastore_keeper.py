"""Keeping a session alive."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from stele.client.metastore_cluster import ClusterTransport
from stele.client.metastore_keeper import keep_session
from stele.errors import SessionExpired, SteleError, Unavailable
from stele.protocol.metastore import KeepAliveRequest, SessionResponse
from tests.unit.metastore.cluster_support import group_of

TTL_US = 30_000

TTL_S = 2.0
"""Of a real session: a moment without a processor must not be the end of it."""


class Group:
    """A transport that answers renewals as told."""

    def __init__(self, *answers: SessionResponse | SteleError) -> None:
        self.answers = list(answers)
        self.now_us = 0

    def monotonic_us(self) -> int:
        self.now_us += 1_000
        return self.now_us

    async def call(self, *_args: object, timeout_s: float, attempt_s: float) -> SessionResponse:
        assert 0 <= 2 * attempt_s <= timeout_s, "there is time to ask somebody else"
        answer = self.answers.pop(0)
        if isinstance(answer, SteleError):
            raise answer
        return answer


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("error", [SessionExpired("it is over"), Unavailable("nobody there")])
async def test_it_renews_until_it_cannot(error: SteleError) -> None:
    group = Group(SessionResponse(5, TTL_US), SessionResponse(5, TTL_US), error)
    renewed: list[int] = []
    lost: list[SteleError] = []
    request = KeepAliveRequest(5, 9)
    await keep_session(group, request, TTL_US, renewed.append, lost.append)  # type: ignore[arg-type]
    assert len(renewed) == 2
    assert all(later > sooner for sooner, later in itertools.pairwise(renewed))
    assert [type(each) for each in lost] == [SessionExpired]


async def test_s7_a_session_outlives_its_time_to_live_and_ends_without_a_keeper() -> None:
    async with group_of(1) as group:
        ms, other = group.client(), group.client()
        session = await ms.session(ttl=TTL_S)
        first_end_us = session._expires_us
        await ms.put("/alive", b"", session=session)
        await until(lambda: group.clock.monotonic_us() > first_end_us)
        assert session.is_alive
        assert await other.get("/alive") is not None
        await ms.close()
        async with asyncio.timeout(20):
            while await other.get("/alive") is not None:
                await asyncio.sleep(0.02)


class Mute:
    """A node that was paused: it takes what it is sent, and says nothing."""

    def opened(self, stream: object) -> None: ...
    def received(self, data: bytes) -> None: ...
    def writable(self, ready: bool) -> None: ...
    def closed(self, error: SteleError | None) -> None: ...


async def test_a_node_that_says_nothing_does_not_use_up_the_time_of_a_session() -> None:
    async with group_of(1) as group:
        mute = group.network.listen("mute:1", Mute)
        ms = group.client(*group.servers, "mute:1")
        session = await ms.session(ttl=2 * TTL_S)
        transport = ms.transport
        assert isinstance(transport, ClusterTransport)
        transport.route.current = "mute:1"
        first_end_us = session._expires_us
        await until(lambda: session._expires_us > first_end_us or not session.is_alive)
        assert session.is_alive
        mute.close()
