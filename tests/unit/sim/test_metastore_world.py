"""The queue, the network, machines that stop and start."""

from __future__ import annotations

from typing import Any

from stele.sim.metastore_world import MetastoreWorld, WorldClock
from stele.sim.world import Weather


def run(world: MetastoreWorld, until_ms: int) -> None:
    while world.now_ms < until_ms:
        world.step()


def leaders(world: MetastoreWorld) -> list[int]:
    return [h.id for h in world.hosts.values() if h.driver is not None and h.driver.node.leads]


def test_a_group_elects_a_leader_in_peace() -> None:
    world = MetastoreWorld(3, 3)
    run(world, 1_000)
    assert len(leaders(world)) == 1
    applied = {h.driver.node.applied for h in world.hosts.values() if h.driver is not None}
    assert len(applied) == 1
    assert applied.pop() >= 2


def test_the_same_seed_is_the_same_world() -> None:
    worlds = [MetastoreWorld(seed, 3, keep_trace=True) for seed in (5, 5, 6)]
    for world in worlds:
        run(world, 600)
    assert worlds[0].trace == worlds[1].trace
    assert worlds[0].trace_hash == worlds[1].trace_hash != worlds[2].trace_hash


def test_events_of_an_earlier_life_are_void() -> None:
    world = MetastoreWorld(1, 1)
    host = world.hosts[1]
    called: list[int] = []
    world.after(5, "old", host, called.append, 1)
    world.stop(host, power=False)
    world.start(host)
    world.after(6, "new", host, called.append, 2)
    run(world, 20)
    assert called == [2]


def test_a_paused_machine_finds_its_mail_later() -> None:
    world = MetastoreWorld(1, 1)
    host = world.hosts[1]
    host.resumes_at_ms = 50
    called: list[int] = []
    world.after(5, "mail", host, lambda _: called.append(world.now_ms), None)
    run(world, 60)
    assert called
    assert called[0] >= 50


def test_links_can_be_cut_and_messages_lost_or_doubled() -> None:
    world = MetastoreWorld(1, 1)
    heard: list[tuple[Any, ...]] = []
    world.clients[-1] = lambda _source, parcel: heard.append(parcel)
    world.blocked.add((1, -1))
    world.transmit(1, -1, ("cut",))
    world.blocked.clear()
    world.weather = Weather(loss=1.0)
    world.transmit(1, -1, ("lost",))
    world.weather = Weather(duplication=1.0)
    world.transmit(1, -1, ("doubled",))
    world.transmit(1, 99, ("nobody",))
    run(world, 20)
    assert heard == [("doubled",), ("doubled",)]
    assert world.counters["messages lost"] == 2


def test_a_machine_whose_disk_is_full_starts_when_there_is_room() -> None:
    world = MetastoreWorld(1, 1)
    host = world.hosts[1]
    run(world, 300)
    world.stop(host, power=True)
    host.fs.delete("log/reserve")
    host.fill_disk(0)
    world.start(host)
    run(world, 700)
    host.free_disk()
    run(world, 2_000)
    assert leaders(world) == [1]


def test_recorders_read_the_worlds_clock() -> None:
    world = MetastoreWorld(1, 1)
    run(world, 30)
    assert WorldClock(world).now_us() == WorldClock(world).monotonic_us() == world.now_ms * 1000
