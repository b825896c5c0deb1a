"""A node without a group: it waits, says so, and begins once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stele.env.memory_network import MemoryNetwork
from stele.errors import NotLeader, PermissionDenied, Throttled, Unavailable
from stele.metastore.newcomer import Newcomer
from stele.metastore.raft_log_format import LogIdentity
from stele.protocol.metastore import STATUS, WATCH, StatusRequest, WatchRequest
from stele.protocol.metastore_member import (
    BOOTSTRAP,
    DRAIN,
    BootstrapRequest,
    BootstrapResponse,
    DrainRequest,
)
from stele.protocol.metastore_values import KeyRange
from stele.rpc import Channel, ClientOptions, Role
from tests.unit.rpc.support import CountingRandom, memory_network

IDENTITY = LogIdentity("00112233aabbccdd", 5)


class Waiting:
    """A newcomer, and who speaks to it."""

    def __init__(self) -> None:
        self.network: MemoryNetwork = memory_network()
        self.joined: list[tuple[str, ...]] = []
        self.failure: Unavailable | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.newcomer = Newcomer(self.begin, "m1:1", network=self.network)
        self.channels: list[Channel] = []

    async def begin(self, join: tuple[str, ...]) -> LogIdentity:
        self.joined.append(join)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return IDENTITY

    def channel(self, role: Role = Role.ADMIN) -> Channel:
        options = ClientOptions(role=role, name="tester")
        self.channels.append(
            Channel("m1:1", options, random=CountingRandom(), network=self.network)
        )
        return self.channels[-1]


@pytest.fixture
async def waiting() -> AsyncIterator[Waiting]:
    waiting = Waiting()
    yield waiting
    for channel in waiting.channels:
        await channel.close(grace_s=0)
    await waiting.newcomer.close()


async def bootstrap(channel: Channel, *join: str) -> BootstrapResponse:
    return await channel.call(BOOTSTRAP, BootstrapRequest(join), timeout_s=20)


async def test_it_begins_once_and_says_the_same_when_asked_again(waiting: Waiting) -> None:
    channel = waiting.channel()
    for _ in range(2):
        assert await bootstrap(channel, "m9:1") == BootstrapResponse("00112233aabbccdd", 5)
    assert waiting.joined == [("m9:1",)]
    assert waiting.newcomer.told.result() == IDENTITY


async def test_what_failed_may_be_asked_again(waiting: Waiting) -> None:
    channel = waiting.channel()
    waiting.failure = Unavailable("nothing listens at m9:1")
    with pytest.raises(Unavailable, match="m9:1"):
        await bootstrap(channel, "m9:1")
    waiting.failure = None
    assert (await bootstrap(channel)).node == 5
    assert waiting.joined == [("m9:1",), ()]


async def test_two_operators_do_not_begin_at_the_same_time(waiting: Waiting) -> None:
    channel = waiting.channel()
    waiting.gate.clear()
    first = asyncio.ensure_future(bootstrap(channel))
    async with asyncio.timeout(20):
        while not waiting.joined:
            await asyncio.sleep(0.001)
    with pytest.raises(Throttled):
        await bootstrap(channel, "m9:1")
    waiting.gate.set()
    assert (await first).node == 5


async def test_all_else_is_refused_as_by_one_who_is_not_to_be_asked(waiting: Waiting) -> None:
    channel = waiting.channel()
    calls: list[Any] = [
        channel.call(STATUS, StatusRequest(), timeout_s=20),
        channel.call(DRAIN, DrainRequest(5), timeout_s=20),
    ]
    for call in calls:
        with pytest.raises(NotLeader, match="belongs to no group yet"):
            await call
    async with await channel.stream(WATCH, WatchRequest(KeyRange("/a"))) as watch:
        with pytest.raises(NotLeader, match="belongs to no group yet"):
            await watch.next_reply()


async def test_only_operators_and_nodes_may_tell_it(waiting: Waiting) -> None:
    with pytest.raises(PermissionDenied):
        await bootstrap(waiting.channel(Role.CLIENT))
    assert waiting.joined == []
