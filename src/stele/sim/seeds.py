"""Running many seeds of a simulation: what came of each, whether they tested anything, a summary.

A simulation says how one seed is lived through; everything around it is the same for all of them:
the report, stopping at the first failure, averages below which a run has tested nothing, and the
command line.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stele.errors import SteleError
from stele.sim.world import Happenings


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


def observe(seed: int, size: int, world: Happenings, live: Callable[[], None]) -> Report:
    """Live through one seed. Never raises for what the product did wrong: the report says it."""
    report = Report(seed, size)
    try:
        live()
    except (SteleError, AssertionError, KeyError, IndexError) as error:
        report.failure = f"{type(error).__name__}: {error}"
    report.events = world.events
    report.trace_hash = world.trace_hash
    report.counters = world.counters
    report.trace = world.trace or []
    return report


@dataclass(frozen=True, slots=True)
class Simulation:
    """One kind of simulation, for people and for tests."""

    module: str
    """What ``python -m`` runs."""

    about: str
    run_seed: Callable[[int, int, bool], Report]
    """Of a seed, how long the chaos lasts, and whether every event is kept for reading."""

    chaos: int
    """How long it lasts unless somebody says otherwise, in units of its own."""

    expected_per_seed: Mapping[str, float]
    """A run over many seeds that stays below one of these averages has not tested that part."""

    vacuity_seeds_min: int
    """Averages over fewer seeds say nothing."""

    def run_seeds(
        self, seeds: Iterable[int], chaos: int | None = None, *, keep_trace: bool = False
    ) -> list[Report]:
        """Many seeds; stops at the first failure, which is then the last report."""
        reports: list[Report] = []
        for seed in seeds:
            reports.append(self.run_seed(seed, chaos or self.chaos, keep_trace))
            if reports[-1].failure is not None:
                break
        return reports

    def find_vacuous(self, reports: list[Report]) -> list[str]:
        """Which parts these runs hardly touched."""
        if len(reports) < self.vacuity_seeds_min:
            return []
        total = _total(reports)
        return [
            f"{name}: {total[name]} in {len(reports)} seeds, expected {least * len(reports):.0f}"
            for name, least in self.expected_per_seed.items()
            if total[name] < least * len(reports)
        ]

    def summarize(self, reports: list[Report]) -> str:
        """A few lines for people."""
        events = sum(report.events for report in reports)
        lines = [f"{len(reports)} seeds, {events} events"]
        lines += [f"  {name}: {count}" for name, count in sorted(_total(reports).items())]
        lines += [f"TOO LITTLE {line}" for line in self.find_vacuous(reports)]
        for report in reports:
            if report.failure is not None:
                lines.append(f"FAILED seed {report.seed} ({report.size} nodes): {report.failure}")
                lines.append(f"  replay: {self.replay(report.seed)}")
        return "\n".join(lines)

    def replay(self, seed: int) -> str:
        """The command that shows a run again."""
        return f"python -m {self.module} --first {seed} --seeds 1 --trace"

    def main(self, arguments: list[str] | None = None) -> int:
        """The command line."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.about)
        parser.add_argument("--seeds", type=int, default=1, help="how many (1)")
        parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
        told = f"how long the faults go on ({self.chaos})"
        parser.add_argument("--chaos", type=int, default=self.chaos, help=told)
        parser.add_argument("--trace", action="store_true", help="print every event")
        chosen = parser.parse_args(arguments)
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        reports = self.run_seeds(seeds, chosen.chaos, keep_trace=chosen.trace)
        for line in reports[-1].trace:
            sys.stdout.write(line + "\n")
        sys.stdout.write(self.summarize(reports) + "\n")
        failed = any(report.failure is not None for report in reports)
        return 1 if failed or self.find_vacuous(reports) else 0


def _total(reports: list[Report]) -> Counter[str]:
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.counters)
    return total
