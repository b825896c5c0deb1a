"""A watcher: what it is told, and from where it goes on."""

from __future__ import annotations

import itertools

from stele.sim.metastore_client import Client
from stele.sim.metastore_watcher import Watcher
from stele.sim.metastore_workload import Workload
from stele.sim.metastore_world import MetastoreWorld


def test_it_is_told_everything_also_across_a_restart_of_the_member_it_watches() -> None:
    world = MetastoreWorld(3, 1)
    numbers = itertools.count(1_000)
    watcher = Watcher(world, lambda: Client(world, next(numbers)), "/r/")
    workload = Workload(world)
    for power in (False, True):
        deadline_ms = world.now_ms + 600
        while world.now_ms < deadline_ms:
            world.step()
        world.stop(world.hosts[1], power=power)
        world.start(world.hosts[1])
    workload.rest()
    while not workload.is_done:
        world.step()
    target = world.checker.applied_max
    while watcher.position < target:
        world.step()
    watcher.conclude()
    world.checker.judge()
    told = [o for o in world.checker.watches.history().operations() if o.client >= 1_000]
    assert {"watch", "deliver", "progress"} <= {operation.kind for operation in told}
    assert world.counters["watches resumed"] > 0
