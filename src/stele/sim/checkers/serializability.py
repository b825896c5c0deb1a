"""Could these transactions have run one after the other, in an order that keeps real time?

The way of Elle: recover from what clients saw which transaction depends on which, and look for
cycles. That takes linear time, gives a reason with every verdict, and needs a workload whose reads
tell what they are reads of: lists that are appended to (`list_append`), or registers whose values
are written once (`register_writes`).

What is reported is always wrong. What is not reported may be wrong only where no client looked: for
lists, anything behind the last read of a key. A workload that ends by reading all keys leaves no
such place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from stele.sim.checkers.anomalies import Anomaly, Findings
from stele.sim.checkers.cycles import find_cycles
from stele.sim.checkers.dependency_graph import DependencyGraph, Kind
from stele.sim.checkers.history import Operation
from stele.sim.checkers.list_append import ListAppend
from stele.sim.checkers.register_writes import RegisterWrites


class Evidence(Protocol):
    """A history taken apart."""

    operations: list[Operation]
    findings: Findings
    graph: DependencyGraph
    lost_updates: set[frozenset[int]]

    def why(self, source: int, target: int, kind: Kind) -> str:
        """Why one transaction comes before another."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is wrong with a history of transactions."""

    transactions: int
    counts: Mapping[str, int]
    """How often each anomaly was found."""
    anomalies: Sequence[Anomaly]
    """The first of them, with their reasons."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.counts

    def __str__(self) -> str:
        found = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        lines = [f"{self.transactions} transactions: {found or 'no anomaly'}"]
        return "\n".join(lines + [str(anomaly) for anomaly in self.anomalies])


def check_list_append(operations: Iterable[Operation]) -> Report:
    """Judge transactions that append to lists and read them."""
    return _judge(ListAppend(operations))


def check_register_writes(operations: Iterable[Operation]) -> Report:
    """Judge transactions that write and read registers."""
    return _judge(RegisterWrites(operations))


def _judge(evidence: Evidence) -> Report:
    findings, graph = evidence.findings, evidence.graph
    for cycle in chain.from_iterable(find_cycles(graph, knot) for knot in graph.knots()):
        numbers = frozenset(number for number, _ in cycle.steps)
        if numbers not in evidence.lost_updates:  # told already, and better
            findings.add_cycle(cycle, evidence.operations, evidence.why)
    return Report(len(evidence.operations), dict(findings.counts), findings.kept)
