"""Seeded simulation of whole metastore nodes: chaos first, then peace, with checks all the way.

    python -m stele.sim.metastore_sim --seeds 500            many seeds, one summary
    python -m stele.sim.metastore_sim --first 17 --trace     one seed, event by event

A seed fixes everything. After the chaos all faults end; the group must then serve every client,
bring all members to the same state, and everything the clients saw must have been possible.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable

from stele.metastore.driver import Driver
from stele.sim.metastore_checks import require
from stele.sim.metastore_host import MetastoreHost
from stele.sim.metastore_nemesis import MetastoreNemesis
from stele.sim.metastore_workload import Workload
from stele.sim.metastore_world import MetastoreWorld
from stele.sim.seeds import Report, Simulation, observe

GROUP_SIZES = (1, 3, 3, 3, 5)
SETTLE_MS_MAX = 12_000
"""Far more than clients need to give up and members to catch up."""

EXPECTED_PER_SEED = {
    "entries applied": 20.0,
    "operations judged": 60.0,
    "power failures": 0.5,
    "files torn": 0.03,
    "files set back": 0.2,
    "kills": 0.2,
    "partitions": 0.5,
    "pauses": 0.2,
    "clock drifts": 0.2,
    "messages lost": 10.0,
    "messages doubled": 5.0,
    "leaders left behind": 0.2,
    "nodes stopped by their disk": 0.1,
    "disks full": 0.02,
    "compactions": 0.5,
    "snapshots installed": 0.05,
    "sessions expired": 0.5,
    "renewals": 2.0,
    "writes gathered": 4.0,
    "tries of unknown outcome": 1.0,
    "watches resumed": 1.0,
    "joins": 0.1,
    "transfers": 0.1,
    "removals": 0.02,
}
CHAOS_MS = 1_800


def run_seed(seed: int, chaos: int = CHAOS_MS, keep_trace: bool = False) -> Report:
    """One whole life of a group; ``chaos`` is simulated milliseconds."""
    size = GROUP_SIZES[seed % len(GROUP_SIZES)]
    world = MetastoreWorld(seed, size, keep_trace=keep_trace)
    return observe(seed, size, world, lambda: _live(world, chaos))


def _live(world: MetastoreWorld, chaos: int) -> None:
    nemesis = MetastoreNemesis(world)
    workload = Workload(world)
    while world.now_ms < chaos:
        world.step()
    nemesis.rest()
    workload.rest()
    _settle(world, workload)
    world.checker.judge()


def _settle(world: MetastoreWorld, workload: Workload) -> None:
    """In peace everybody finishes, everything is read, alarms end, and all members and watchers get
    there."""
    deadline_ms = world.now_ms + SETTLE_MS_MAX
    _run_until(world, deadline_ms, lambda: workload.is_done, "clients do not finish")
    workload.read_everything()
    _run_until(world, deadline_ms, lambda: workload.is_done, "the last reads are not answered")
    _run_until(world, deadline_ms, lambda: _alarms_are_over(world), "an alarm does not end")
    target = world.checker.applied_max
    _run_until(
        world,
        deadline_ms,
        lambda: _members_are_at(world, target) and workload.watchers_are_at(target),
        f"not all members and watchers reach {target}",
    )
    workload.conclude_watches()
    _compare_states(world)


def _run_until(
    world: MetastoreWorld, deadline_ms: int, is_done: Callable[[], bool], what: str
) -> None:
    while not is_done():
        require(world.now_ms < deadline_ms, "liveness", what)
        world.step()


def _leader(world: MetastoreWorld) -> MetastoreHost | None:
    leading = [host for host in world.hosts.values() if host.leads]
    return max(leading, key=lambda host: _driver(host).node.core.term, default=None)


def _driver(host: MetastoreHost) -> Driver:
    assert host.driver is not None
    return host.driver


def _members(world: MetastoreWorld) -> list[MetastoreHost]:
    leader = _leader(world)
    if leader is None:
        return []
    return [world.hosts[node] for node in _driver(leader).node.core.membership.members]


def _members_are_at(world: MetastoreWorld, index: int) -> bool:
    members = _members(world)
    return bool(members) and all(
        host.driver is not None and host.driver.node.applied >= index for host in members
    )


def _alarms_are_over(world: MetastoreWorld) -> bool:
    """Disks have room again, so nobody is kept from writing."""
    members = _members(world)
    return bool(members) and not any(
        host.driver is None or host.driver.machine.has_alarms for host in members
    )


def _compare_states(world: MetastoreWorld) -> None:
    """Members that have applied the same entries hold the same bytes."""
    seen: dict[int, tuple[int, str]] = {}
    for host in _members(world):
        machine = _driver(host).machine
        digest = hashlib.sha256(b"".join(machine.export())).hexdigest()
        first, expected = seen.setdefault(machine.applied_index, (host.id, digest))
        told = f"nodes {first} and {host.id} differ at {machine.applied_index}"
        require(digest == expected, "equal states", told)


SIMULATION = Simulation(
    "stele.sim.metastore_sim",
    "simulate whole metastore nodes; chaos is counted in simulated milliseconds",
    run_seed,
    chaos=CHAOS_MS,
    expected_per_seed=EXPECTED_PER_SEED,
    vacuity_seeds_min=50,
)

if __name__ == "__main__":
    sys.exit(SIMULATION.main())
