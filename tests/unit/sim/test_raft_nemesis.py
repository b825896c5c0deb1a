from __future__ import annotations

from stele.sim.raft_nemesis import HOSTS_MAX, Clients, RaftNemesis
from stele.sim.raft_world import TICK_MS, RaftWorld
from stele.sim.world import Weather


def chaos(seed: int, events: int = 1_500, *, faults: bool = True) -> RaftWorld:
    world = RaftWorld(seed, 3)
    if faults:
        RaftNemesis(world)
    Clients(world)
    while world.events < events:
        world.step()
    return world


def test_all_kinds_of_trouble_come_about() -> None:
    counters = sum((chaos(seed).counters for seed in range(12)), start=RaftWorld(0, 1).counters)
    for trouble in (
        "crashes",
        "partitions",
        "pauses",
        "changes of pace",
        "contests",
        "writes lost",
    ):
        assert counters[trouble] > 0, trouble


def test_clients_do_everything_that_can_be_done() -> None:
    counters = chaos(3, 4_000, faults=False).counters
    for chore in (
        "proposals",
        "reads confirmed",
        "compactions",
        "transfers",
        "membership changes",
        "unreachable reports",
    ):
        assert counters[chore] > 0, chore


def test_the_group_grows_only_to_its_limit() -> None:
    world = chaos(3, 6_000, faults=False)
    assert 3 < max(world.hosts) <= HOSTS_MAX


def test_after_the_nemesis_rests_all_is_well_again() -> None:
    world = RaftWorld(4, 3)
    nemesis = RaftNemesis(world)
    while world.events < 800:
        world.step()
    nemesis.rest()
    assert all(host.core is not None for host in world.hosts.values())
    assert {host.tick_ms for host in world.hosts.values()} == {TICK_MS}
    assert not world.blocked
    assert world.weather == Weather()
    crashes = world.counters["crashes"]
    while world.events < 1_600:
        world.step()
    assert world.counters["crashes"] == crashes


def test_calm_clients_leave_the_group_as_it_is() -> None:
    world = RaftWorld(5, 3)
    clients = Clients(world)
    clients.calm_down()
    while world.events < 1_500:
        world.step()
    assert world.counters["proposals"] > 0
    assert world.counters["membership changes"] == 0
