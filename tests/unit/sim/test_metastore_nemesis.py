"""Who makes trouble, and how everything is repaired."""

from __future__ import annotations

from stele.sim.metastore_host import TICK_MS
from stele.sim.metastore_nemesis import LEFT_BEHIND_MS, MetastoreNemesis
from stele.sim.metastore_world import MetastoreWorld
from stele.sim.world import Weather


def test_trouble_of_every_kind_comes_and_ends() -> None:
    total: dict[str, int] = {}
    for seed in range(12):
        world = MetastoreWorld(seed, 3)
        nemesis = MetastoreNemesis(world)
        while world.now_ms < 2_000:
            world.step()
        nemesis.rest()
        for name, count in world.counters.items():
            total[name] = total.get(name, 0) + count
        assert not world.blocked
        assert world.weather == Weather()
        for host in world.hosts.values():
            assert host.driver is not None
            assert host.tick_ms == TICK_MS
            assert host.fs.free_bytes() > 1 << 30
        quiet = dict(world.counters)
        while world.now_ms < 3_000:
            world.step()
        for name in ("power failures", "kills", "partitions", "pauses"):
            assert world.counters[name] == quiet.get(name, 0)
    for name in ("power failures", "kills", "partitions", "pauses", "clock drifts", "disks filled"):
        assert total[name] > 0


def test_it_is_a_leader_who_is_left_behind_and_who_leads_on() -> None:
    world = MetastoreWorld(2, 3)
    nemesis = MetastoreNemesis(world)
    nemesis.rest()
    while not any(host.leads for host in world.hosts.values()):
        world.step()
    (old,) = [host for host in world.hosts.values() if host.leads]
    nemesis._leave_behind()
    began_ms = world.now_ms
    while not any(host.leads for host in world.hosts.values() if host is not old):
        world.step()
    assert world.now_ms < began_ms + LEFT_BEHIND_MS
    assert old.leads, "it has not noticed yet"
    while world.now_ms <= began_ms + LEFT_BEHIND_MS:
        world.step()
    assert not world.blocked
    assert old.tick_ms == TICK_MS
