"""Seeded simulation of the Raft core: chaos first, then peace, with checks all the way.

    python -m stele.sim.raft_sim --seeds 1000            many seeds, one summary
    python -m stele.sim.raft_sim --first 17 --trace      one seed, event by event

A seed fixes everything: the size of the group, which faults occur, every delay and every draw of
the nodes. After the chaos all faults end, and the group must elect a leader, commit, and bring
every member to the same state; and that leader must then stay, although nodes that were removed
meanwhile are still running and still trying.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from stele.errors import SteleError
from stele.raft import Role
from stele.sim.raft_checks import InvariantViolation, require
from stele.sim.raft_host import Host
from stele.sim.raft_nemesis import Clients, Nemesis
from stele.sim.raft_world import SIM_CONFIG, TICK_MS, RaftWorld

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
    "clock skews": 0.1,
}
"""A run over many seeds that stays below one of these averages has not tested that part."""

VACUITY_SEEDS_MIN = 100
"""Averages over fewer seeds say nothing."""


@dataclass(frozen=True, slots=True)
class RaftSimOptions:
    """How long a run is."""

    chaos_events: int = 1_800
    keep_trace: bool = False


@dataclass(slots=True)
class Report:
    """What came of one seed."""

    seed: int
    size: int
    events: int = 0
    trace_hash: int = 0
    failure: str | None = None
    counters: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)

    @property
    def replay(self) -> str:
        """The command that shows this run again."""
        return f"python -m stele.sim.raft_sim --first {self.seed} --seeds 1 --trace"


def run_seed(seed: int, options: RaftSimOptions | None = None) -> Report:
    """One whole life of a group. Never raises for what the core did wrong: the report says it."""
    options = options or RaftSimOptions()
    size = GROUP_SIZES[seed % len(GROUP_SIZES)]
    report = Report(seed, size)
    world = RaftWorld(seed, size, keep_trace=options.keep_trace)
    try:
        _live(world, options)
    except (SteleError, AssertionError, KeyError, IndexError) as error:
        report.failure = f"{type(error).__name__}: {error}"
    report.events = world.events
    report.trace_hash = world.trace_hash
    report.counters = world.counters
    report.trace = world.trace or []
    return report


def _live(world: RaftWorld, options: RaftSimOptions) -> None:
    nemesis = Nemesis(world)
    clients = Clients(world)
    while world.events < options.chaos_events:
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
    leading = [h for h in hosts if h.core is not None and h.core.state.role is Role.LEADER]
    return max(leading, key=_term, default=None)


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


def run_seeds(seeds: Iterable[int], options: RaftSimOptions | None = None) -> list[Report]:
    """Many seeds; stops at the first failure, which is then the last report."""
    reports: list[Report] = []
    for seed in seeds:
        reports.append(run_seed(seed, options))
        if reports[-1].failure is not None:
            break
    return reports


def find_vacuous(reports: list[Report]) -> list[str]:
    """Which parts of the algorithm these runs hardly touched."""
    if len(reports) < VACUITY_SEEDS_MIN:
        return []
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.counters)
    return [
        f"{name}: {total[name]} in {len(reports)} seeds, expected {least * len(reports):.0f}"
        for name, least in EXPECTED_PER_SEED.items()
        if total[name] < least * len(reports)
    ]


def summarize(reports: list[Report]) -> str:
    """A few lines for people."""
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.counters)
    events = sum(report.events for report in reports)
    lines = [f"{len(reports)} seeds, {events} events"]
    lines += [f"  {name}: {count}" for name, count in sorted(total.items())]
    lines += [f"TOO LITTLE {line}" for line in find_vacuous(reports)]
    for report in reports:
        if report.failure is not None:
            lines.append(f"FAILED seed {report.seed} ({report.size} nodes): {report.failure}")
            lines.append(f"  replay: {report.replay}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="raft_sim", description="simulate the Raft core")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--events", type=int, default=RaftSimOptions().chaos_events)
    parser.add_argument("--trace", action="store_true", help="print every event")
    chosen = parser.parse_args(arguments)
    options = RaftSimOptions(chosen.events, chosen.trace)
    reports = run_seeds(range(chosen.first, chosen.first + chosen.seeds), options)
    for line in reports[-1].trace:
        sys.stdout.write(line + "\n")
    sys.stdout.write(summarize(reports) + "\n")
    failed = any(report.failure is not None for report in reports)
    return 1 if failed or find_vacuous(reports) else 0


if __name__ == "__main__":
    sys.exit(main())
