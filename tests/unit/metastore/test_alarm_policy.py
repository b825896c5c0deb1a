"""When an alarm is due, and when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from stele.client.metastore_aio import AsyncMetastore
from stele.errors import OutOfSpace
from stele.metastore.alarm_policy import (
    DISK_FULL,
    OVER_QUOTA,
    REPEAT_TICKS,
    AlarmWatch,
    Facts,
    due_news,
    remedy,
)
from stele.metastore.events import AlarmOver, SpaceShort
from stele.metastore.node import NodeSettings
from tests.unit.metastore.cluster_support import OPTIONS, SHORT_LOG, Group, group_of


def test_every_alarm_says_what_ends_it() -> None:
    said = {remedy(reason) for reason in (DISK_FULL, OVER_QUOTA, "something new")}
    assert len(said) == 3
    assert "disk" in remedy(DISK_FULL)
    assert "quota" in remedy(OVER_QUOTA)


QUIET = Facts(1, True, False, {}, (1, 2, 3), 0, 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ()),
        ({"is_disk_full": True}, (SpaceShort(1),)),
        ({"is_disk_full": True, "alarms": {1: DISK_FULL}}, ()),
        ({"is_disk_full": True, "alarms": {1: OVER_QUOTA}, "leads": False}, (SpaceShort(1),)),
        ({"alarms": {1: DISK_FULL}}, (AlarmOver(1),)),
        ({"alarms": {1: DISK_FULL}, "leads": False}, (AlarmOver(1),)),
        ({"alarms": {2: DISK_FULL}}, ()),
        ({"alarms": {9: DISK_FULL}}, (AlarmOver(9),)),
        ({"alarms": {9: DISK_FULL}, "leads": False}, ()),
        ({"alarms": {2: OVER_QUOTA}, "quota_bytes": 100, "used_bytes": 100}, ()),
        ({"alarms": {2: OVER_QUOTA}, "quota_bytes": 100, "used_bytes": 91}, ()),
        ({"alarms": {2: OVER_QUOTA}, "quota_bytes": 100, "used_bytes": 90}, (AlarmOver(2),)),
        ({"alarms": {2: OVER_QUOTA}, "used_bytes": 100}, (AlarmOver(2),)),
        ({"alarms": {2: OVER_QUOTA}, "used_bytes": 100, "leads": False}, ()),
    ],
)
def test_each_speaks_for_its_disk_and_the_leader_for_the_rest(
    changes: dict[str, object], expected: tuple[object, ...]
) -> None:
    assert due_news(QUIET._replace(**changes)) == expected  # type: ignore[arg-type]


def test_news_are_said_at_once_and_again_while_they_have_no_effect() -> None:
    watch = AlarmWatch()
    full = QUIET._replace(is_disk_full=True)
    assert watch.tick(QUIET) == ()
    said = [watch.tick(full) for _ in range(2 * REPEAT_TICKS + 1)]
    assert [number for number, news in enumerate(said) if news] == [0, REPEAT_TICKS, 40]
    assert watch.tick(full._replace(alarms={1: DISK_FULL})) == ()
    assert watch.tick(QUIET._replace(alarms={1: DISK_FULL})) == (AlarmOver(1),)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def filled_up(group: Group, address: str) -> None:
    """Write until the disk of a node has used its reserve, and everybody knows."""
    files = group.disks[address]
    files.capacity_bytes = files.disk.used_bytes
    ms = group.client()

    async def fill() -> None:
        for number in range(10_000):
            await ms.put(f"/filling/{number % 5}", b"x" * 1_000)

    with pytest.raises(OutOfSpace, match=DISK_FULL):
        await fill()
    assert await ms.delete("/filling/0") == 1, "what frees space goes on"


@pytest.mark.parametrize("whose", ["leader", "follower"])
async def test_the_alarm_of_a_full_disk_ends_when_there_is_room(whose: str) -> None:
    async with group_of(3, SHORT_LOG) as group:
        leader = await group.settled_leader()
        address = next(a for a in group.servers if (a == leader) == (whose == "leader"))
        await filled_up(group, address)
        machines = [server.driver.machine for server in group.servers.values()]
        await until(lambda: all(machine.has_alarms for machine in machines))
        group.disks[address].capacity_bytes = 1 << 40
        await until(lambda: not any(machine.has_alarms for machine in machines))
        await group.client().put("/after", b"1")


async def test_an_operator_may_end_an_alarm_and_it_comes_back_while_its_reason_lasts() -> None:
    async with group_of(1) as group:
        await filled_up(group, "m1:1")
        (server,) = group.servers.values()
        ms = group.client()
        index = await ms.admin.clear_alarm(server.node)
        await until(lambda: server.driver.machine.applied_index > index)
        assert server.driver.machine.alarms() == {server.node: DISK_FULL}


async def test_the_alarm_of_a_member_that_left_ends() -> None:
    async with group_of(3, SHORT_LOG) as group:
        leader = await group.settled_leader()
        address = next(a for a in group.servers if a != leader)
        gone = group.servers[address].node
        await filled_up(group, address)
        await group.client(leader).admin.remove(gone)
        machine = group.servers[leader].driver.machine
        await until(lambda: not machine.has_alarms)


SHORT_HISTORY = replace(OPTIONS, node=NodeSettings(history_us=50_000, waterline_period_us=50_000))


async def put_too_much(ms: AsyncMetastore) -> None:
    for number in range(1_000):
        await ms.put(f"/{number:04d}", b"x" * 1_000)


async def test_the_alarm_of_a_quota_ends_below_it() -> None:
    async with group_of(1, SHORT_HISTORY) as group:
        ms = group.client()
        (server,) = group.servers.values()
        machine = server.driver.machine
        await ms.admin.set_quota(10_000)
        with pytest.raises(OutOfSpace):
            await put_too_much(ms)
        await until(lambda: list(machine.alarms().values()) == [OVER_QUOTA])
        await ms.delete("/0000")
        await until(lambda: machine.usage().used_bytes < 10_000)
        assert machine.has_alarms, "it is just below it: some room has to be made"
        await ms.delete("/0000", "/0005")
        await until(lambda: not machine.has_alarms)
        assert machine.usage().used_bytes < 9_000
        await ms.put("/after", b"1")


async def test_the_alarm_of_a_quota_ends_with_the_quota() -> None:
    async with group_of(1) as group:
        ms = group.client()
        (server,) = group.servers.values()
        await ms.admin.set_quota(1_000)
        with pytest.raises(OutOfSpace):
            await put_too_much(ms)
        await until(lambda: server.driver.machine.has_alarms)
        await ms.admin.set_quota(0)
        await until(lambda: not server.driver.machine.has_alarms)
        await ms.put("/after", b"1")
