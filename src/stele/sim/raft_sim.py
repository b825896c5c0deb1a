"""Seeded simulation of the Raft core: chaos first, then peace, with checks all the way.

    python -m stele.sim.raft_sim --seeds 1000            many seeds, one summary
    python -m stele.sim.raft_sim --first 17 --trace      one seed, event by event

A seed fixes everything: the size of the group, which faults occur, every delay and every draw of
the nodes. After the chaos all faults end, and the group must elect a leader, commit, and bring
every member to the same state; and that leader must then stay, although nodes that were removed
meanwhile are still running and still trying.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from stele.sim.raft_checks import InvariantViolation, require
from stele.sim.raft_host import Host
from stele.sim.raft_nemesis import Clients, RaftNemesis
from stele.sim.raft_world import SIM_CONFIG, TICK_MS, RaftWorld
from stele.sim.seeds import Report, Simulation, observe

GROUP_SIZES = (1, 3, 3, 3, 5, 5)
SETTLE_TICKS_MAX = 60 * SIM_CONFIG.election_ticks
"""Far more than an election takes: about a hundred heartbeat periods."""

QUIET_TICKS = 3 * SIM_CONFIG.election_ticks
"""Lets the last delayed messages arrive, and a transfer that was asked for come to its end."""

STABLE_TICKS = 4 * SIM_CONFIG.election_ticks

EXPECTED_PER_SEED = {
    "elections": 1.0,
    "commits": 10.0,
    "crashes": 0.5,
    "partitions": 0.5,
    "pauses": 0.1,
    "messages lost": 2.0,
    "messages doubled": 0.5,
    "log cuts": 0.05,
    "writes lost": 0.1,
    "membership changes": 0.5,
    "compactions": 0.5,
    "snapshots installed": 0.1,
    "transfers": 0.5,
    "reads confirmed": 1.0,
    "changes of pace": 0.1,
}
CHAOS_EVENTS = 1_800


def run_seed(seed: int, chaos: int = CHAOS_EVENTS, keep_trace: bool = False) -> Report:
    """One whole life of a group; ``chaos`` counts events."""
    size = GROUP_SIZES[seed % len(GROUP_SIZES)]
    world = RaftWorld(seed, size, keep_trace=keep_trace)
    return observe(seed, size, world, lambda: _live(world, chaos))


def _live(world: RaftWorld, chaos: int) -> None:
    nemesis = RaftNemesis(world)
    clients = Clients(world)
    while world.events < chaos:
        world.step()
    nemesis.rest()
    clients.calm_down()
    _settle(world)
    _stay(world)


def _settle(world: RaftWorld) -> None:
    """Run in peace until every member of the leader's group has all that was committed by now."""
    deadline_ms = world.now_ms + SETTLE_TICKS_MAX * TICK_MS
    # An index that does not exist yet: the group has to make progress, not only to agree.
    target = world.checker.commit_max + 3
    while world.now_ms < deadline_ms:
        world.step()
        leader = _leader(world.hosts.values())
        if leader is not None and _everyone_reached(world, leader, target):
            return
    raise InvariantViolation(f"liveness: {target} not reached by all in {SETTLE_TICKS_MAX} ticks")


def _leader(hosts: Iterable[Host]) -> Host | None:
    return max((host for host in hosts if host.leads), key=_term, default=None)


def _term(host: Host) -> int:
    assert host.core is not None
    return host.core.state.term


def _everyone_reached(world: RaftWorld, leader: Host, target: int) -> bool:
    assert leader.core is not None
    members = leader.core.state.membership.members
    return all(world.hosts[node].image.index >= target for node in members)


def _stay(world: RaftWorld) -> None:
    """Nobody may disturb a healthy leader, members and former members alike."""
    _run(world, QUIET_TICKS)
    leader = _leader(world.hosts.values())
    assert leader is not None, "liveness: the leader was lost again"
    term = _term(leader)
    _run(world, STABLE_TICKS)
    held = _leader(world.hosts.values()) is leader and _term(leader) == term
    require(held, "stability", f"node {leader.id} lost term {term} in a healthy group")


def _run(world: RaftWorld, ticks: int) -> None:
    deadline_ms = world.now_ms + ticks * TICK_MS
    while world.now_ms < deadline_ms:
        world.step()


SIMULATION = Simulation(
    "stele.sim.raft_sim",
    "simulate the Raft core; chaos is counted in events",
    run_seed,
    chaos=CHAOS_EVENTS,
    expected_per_seed=EXPECTED_PER_SEED,
    vacuity_seeds_min=100,
)

if __name__ == "__main__":
    sys.exit(SIMULATION.main())
