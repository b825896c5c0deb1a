"""Seeded simulation of whole metastore nodes: chaos first, then peace, with checks all the way.

    python -m stele.sim.metastore_sim --seeds 500            many seeds, one summary
    python -m stele.sim.metastore_sim --first 17 --trace     one seed, event by event

A seed fixes everything. After the chaos all faults end; the group must then serve every client,
bring all members to the same state, and everything the clients saw must have been possible.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stele.errors import SteleError
from stele.metastore.driver import Driver
from stele.sim.metastore_checks import require
from stele.sim.metastore_host import MetastoreHost
from stele.sim.metastore_nemesis import MetastoreNemesis
from stele.sim.metastore_workload import Workload
from stele.sim.metastore_world import MetastoreWorld

GROUP_SIZES = (1, 3, 3, 3, 5)
SETTLE_MS_MAX = 12_000
"""Far more than clients need to give up and members to catch up."""

EXPECTED_PER_SEED = {
    "entries applied": 20.0,
    "operations judged": 60.0,
    "power failures": 0.5,
    "kills": 0.2,
    "partitions": 0.5,
    "pauses": 0.2,
    "clock drifts": 0.2,
    "messages lost": 10.0,
    "messages doubled": 5.0,
    "nodes stopped by their disk": 0.1,
    "disks full": 0.02,
    "compactions": 0.5,
    "snapshots installed": 0.05,
    "sessions expired": 0.5,
    "renewals": 2.0,
    "tries of unknown outcome": 1.0,
    "watches resumed": 1.0,
    "joins": 0.1,
    "transfers": 0.1,
    "removals": 0.02,
}
"""A run over many seeds that stays below one of these averages has not tested that part."""

VACUITY_SEEDS_MIN = 50
"""Averages over fewer seeds say nothing."""


@dataclass(frozen=True, slots=True)
class MetastoreSimOptions:
    """How long a run is."""

    chaos_ms: int = 2_500
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
        return f"python -m stele.sim.metastore_sim --first {self.seed} --seeds 1 --trace"


def run_seed(seed: int, options: MetastoreSimOptions | None = None) -> Report:
    """One whole life of a group. Never raises for what the product did wrong: the report says."""
    options = options or MetastoreSimOptions()
    report = Report(seed, GROUP_SIZES[seed % len(GROUP_SIZES)])
    world = MetastoreWorld(seed, report.size, keep_trace=options.keep_trace)
    try:
        _live(world, options)
    except (SteleError, AssertionError, KeyError, IndexError) as error:
        report.failure = f"{type(error).__name__}: {error}"
    report.events = world.events
    report.trace_hash = world.trace_hash
    report.counters = world.counters
    report.trace = world.trace or []
    return report


def _live(world: MetastoreWorld, options: MetastoreSimOptions) -> None:
    nemesis = MetastoreNemesis(world)
    workload = Workload(world)
    while world.now_ms < options.chaos_ms:
        world.step()
    nemesis.rest()
    workload.rest()
    _settle(world, workload)
    world.checker.judge()


def _settle(world: MetastoreWorld, workload: Workload) -> None:
    """In peace everybody finishes, everything is read, and all members and watchers get there."""
    deadline_ms = world.now_ms + SETTLE_MS_MAX
    _run_until(world, deadline_ms, lambda: workload.is_done, "clients do not finish")
    workload.read_everything()
    _run_until(world, deadline_ms, lambda: workload.is_done, "the last reads are not answered")
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
    leading = [h for h in world.hosts.values() if h.driver is not None and h.driver.node.leads]
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


def _compare_states(world: MetastoreWorld) -> None:
    """Members that have applied the same entries hold the same bytes."""
    seen: dict[int, tuple[int, str]] = {}
    for host in _members(world):
        machine = _driver(host).machine
        digest = hashlib.sha256(b"".join(machine.export())).hexdigest()
        first, expected = seen.setdefault(machine.applied_index, (host.id, digest))
        told = f"nodes {first} and {host.id} differ at {machine.applied_index}"
        require(digest == expected, "equal states", told)


def run_seeds(seeds: Iterable[int], options: MetastoreSimOptions | None = None) -> list[Report]:
    """Many seeds; stops at the first failure, which is then the last report."""
    reports: list[Report] = []
    for seed in seeds:
        reports.append(run_seed(seed, options))
        if reports[-1].failure is not None:
            break
    return reports


def find_vacuous(reports: list[Report]) -> list[str]:
    """Which parts these runs hardly touched."""
    if len(reports) < VACUITY_SEEDS_MIN:
        return []
    total = _total(reports)
    return [
        f"{name}: {total[name]} in {len(reports)} seeds, expected {least * len(reports):.0f}"
        for name, least in EXPECTED_PER_SEED.items()
        if total[name] < least * len(reports)
    ]


def _total(reports: list[Report]) -> Counter[str]:
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.counters)
    return total


def summarize(reports: list[Report]) -> str:
    """A few lines for people."""
    events = sum(report.events for report in reports)
    lines = [f"{len(reports)} seeds, {events} events"]
    lines += [f"  {name}: {count}" for name, count in sorted(_total(reports).items())]
    lines += [f"TOO LITTLE {line}" for line in find_vacuous(reports)]
    for report in reports:
        if report.failure is not None:
            lines.append(f"FAILED seed {report.seed} ({report.size} nodes): {report.failure}")
            lines.append(f"  replay: {report.replay}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="metastore_sim", description="simulate the metastore")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--chaos-ms", type=int, default=MetastoreSimOptions().chaos_ms)
    parser.add_argument("--trace", action="store_true", help="print every event")
    chosen = parser.parse_args(arguments)
    options = MetastoreSimOptions(chosen.chaos_ms, chosen.trace)
    reports = run_seeds(range(chosen.first, chosen.first + chosen.seeds), options)
    for line in reports[-1].trace:
        sys.stdout.write(line + "\n")
    sys.stdout.write(summarize(reports) + "\n")
    failed = any(report.failure is not None for report in reports)
    return 1 if failed or find_vacuous(reports) else 0


if __name__ == "__main__":
    sys.exit(main())
