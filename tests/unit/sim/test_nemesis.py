"""Trouble that every group of machines has to bear, and its end."""

from __future__ import annotations

from collections.abc import Callable

from stele.sim.nemesis import Nemesis, Severity, both_ways
from stele.sim.world import Weather
from tests.unit.sim.test_world import Plain, Thing

SEVERITY = Severity(10, 30, 3, (0.0, 0.5), (0.0, 0.5), (1, 20), (1, 20))
TICK_MS = 12


class Plague(Nemesis[Thing]):
    def __init__(self, world: Plain) -> None:
        self.own = 0
        super().__init__(world, SEVERITY, TICK_MS)

    def _own_faults(self) -> list[Callable[[], None]]:
        return [self._sneeze]

    def _sneeze(self) -> None:
        self.own += 1

    def _crash(self, host: Thing) -> None:
        self._machines.count("crashes")
        host.is_up = False


def village(seed: int) -> Plain:
    world = Plain(seed)
    world.hosts = {node: Thing(node, leads=node == 2) for node in range(1, 6)}
    return world


def test_all_kinds_come_about_over_many_seeds() -> None:
    seen: set[str] = set()
    sneezes = 0
    weathers: set[float] = set()
    for seed in range(10):
        world = village(seed)
        plague = Plague(world)
        while world.now_ms < 500:
            world.step()
            weathers.add(world.weather.loss)
        seen |= set(world.counters)
        sneezes += plague.own
    assert seen >= {"crashes", "partitions", "pauses", "changes of pace"}
    assert sneezes > 0
    assert weathers == {0.0, 0.5}


def test_runs_differ_in_their_mix() -> None:
    mixes = {frozenset(f.__name__ for f in Plague(village(seed))._faults) for seed in range(10)}
    assert len(mixes) > 5


def test_rest_repairs_everything_and_nothing_new_breaks() -> None:
    world = village(3)
    plague = Plague(world)
    while world.now_ms < 500:
        world.step()
    plague.rest()
    assert not world.blocked
    assert world.weather == Weather()
    for host in world.hosts.values():
        assert (host.is_up, host.tick_ms, host.resumes_at_ms) == (True, TICK_MS, 0)
    before = dict(world.counters)
    world.after(400, "end", None, lambda _: None, None)
    while world.now_ms < 900:
        world.step()
    assert world.counters == before


def test_leaders_are_hit_more_often_than_others() -> None:
    world = village(1)
    plague = Plague(world)
    picked = [plague._pick().id for _ in range(400)]
    assert picked.count(2) > 150
    assert set(picked) == {1, 2, 3, 4, 5}


def test_both_ways() -> None:
    assert set(both_ways(1, [2, 3])) == {(1, 2), (1, 3), (2, 1), (3, 1)}
