"""Cycles of dependencies, and what they are called.

A knot of the graph has many cycles. The name of the anomaly is that of the weakest promise which
is broken (Adya; Elle), so the shapes are tried from the top, and of each the shortest cycle found:

    G0         only ww                                   writes are interleaved
    G1c        ww and at least one wr                    information flows in a circle
    G-single   one rw, otherwise ww and wr               read skew, lost updates
    G2-item    several rw                                write skew

Where none of these goes without real time, the shapes are tried again with it, and the name ends in
``-realtime``. There the shortest of all is taken: it explains best, and all break the same promise.

Real time is not followed along its joints here, but read off the clock: everything that began
after a transaction was over is one step away from it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from stele.sim.checkers.dependency_graph import PLAIN_KINDS, DependencyGraph, Kind

VISITS_MAX = 1_000_000
"""Edges looked at for one knot. Where everything is wrong it is huge, and any cycle will do."""

FIRST_EDGES_MAX = 200
"""How many edges are tried as the first of a longer cycle, for each shape."""

WW, WR, RW, RT = {Kind.WW}, {Kind.WR}, {Kind.RW}, {Kind.RT}
ALL_KINDS = frozenset(Kind)
ANY_WW, ANY_RW = {Kind.WW, Kind.WW_RT}, {Kind.RW, Kind.RW_RT}

Shape: TypeAlias = tuple[set[Kind], set[Kind]]
"""The kinds that the first edge may have, and the others."""

PLAIN: list[Shape] = [(WW, WW), (WR, WW | WR), (RW, WW | WR), (RW, WW | WR | RW)]
"""G0, G1c, G-single, G2-item."""

REAL_TIME: list[Shape] = [
    (ANY_RW, ANY_WW | WR | RT),
    (WR, ANY_WW | WR | RT),
    (ANY_WW, ANY_WW | RT),
    (ANY_RW, ANY_WW | WR | ANY_RW | RT),
]
"""G-single, G1c, G0 and G2-item again."""

Step: TypeAlias = tuple[int, Kind]
"""A transaction, and why it comes before the next one of its cycle."""

Steps: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Cycle:
    """Transactions of which each must come before the next, and the last before the first."""

    name: str
    steps: Steps


def name_of(steps: Iterable[Step]) -> str:
    """What a cycle is called."""
    kinds = [kind for _, kind in steps]
    overwritten_reads = sum(kind in ANY_RW for kind in kinds)
    if overwritten_reads:
        name = "G-single" if overwritten_reads == 1 else "G2-item"
    else:
        name = "G1c" if Kind.WR in kinds else "G0"
    return name if PLAIN_KINDS.issuperset(kinds) else f"{name}-realtime"


def find_cycles(graph: DependencyGraph, knot: Collection[int]) -> list[Cycle]:
    """The cycles of a knot that say most.

    One for each part that is a knot without real time, or one if there is no such part.
    """
    parts = graph.components(knot, PLAIN_KINDS)
    if parts:
        found = [_plain_cycle(_Finder(graph, part)) for part in parts]
    else:
        found = [_real_time_cycle(_Finder(graph, knot))]
    return [Cycle(name_of(steps), steps) for steps in found]


def _plain_cycle(finder: _Finder) -> Steps:
    for shape in PLAIN:
        steps = finder.pair(shape) or finder.longer(shape)
        if steps:
            return steps
    return finder.any(PLAIN_KINDS)


def _real_time_cycle(finder: _Finder) -> Steps:
    for shape in REAL_TIME:
        steps = finder.pair(shape)
        if steps:
            return steps
    found = [steps for steps in map(finder.longer, REAL_TIME) if steps]
    return min(found, key=len) if found else finder.any(ALL_KINDS)


class _Finder:
    """Looks for cycles within some nodes."""

    def __init__(self, graph: DependencyGraph, nodes: Collection[int]) -> None:
        self._graph = graph
        self._nodes = set(nodes)
        transactions = [node for node in nodes if not graph.is_joint(node)]
        transactions.sort(key=lambda node: graph.operations[node].start)
        self._by_start = transactions
        self._starts = [graph.operations[node].start for node in transactions]
        self._visits_left = VISITS_MAX

    def pair(self, shape: Shape) -> Steps | None:
        """A cycle of two transactions."""
        first_kinds, kinds = shape
        for source, target, kind in self._first_edges(first_kinds):
            back = self._step_between(target, source, kinds)
            if back is not None:
                return (source, kind), (target, back)
        return None

    def longer(self, shape: Shape) -> Steps | None:
        """The shortest cycle that is found with what is left of the budget."""
        first_kinds, kinds = shape
        best: Steps | None = None
        for source, target, kind in islice(self._first_edges(first_kinds), FIRST_EDGES_MAX):
            steps = self._around(source, target, kind, kinds)
            if steps is not None and (best is None or len(steps) < len(best)):
                best = steps
        return best

    def any(self, kinds: AbstractSet[Kind]) -> Steps:
        """Some cycle. Every edge of a strongly connected component is on one."""
        self._visits_left = VISITS_MAX
        source, target, kind = next(self._first_edges(kinds))
        steps = self._around(source, target, kind, kinds)
        assert steps is not None, "a knot without a cycle"
        return steps

    def _first_edges(self, kinds: AbstractSet[Kind]) -> Iterator[tuple[int, int, Kind]]:
        for source in self._by_start:
            for target, kind in self._near(source, kinds):
                if self._visits_left <= 0:
                    return
                yield source, target, kind

    def _near(self, node: int, kinds: AbstractSet[Kind]) -> Iterator[Step]:
        """Transactions one step away and the kind of the step; real time is left out."""
        for target, kind in self._graph.edges(node):
            self._visits_left -= 1
            if kind is Kind.RT or kind not in kinds or target not in self._nodes:
                continue
            if not self._graph.is_joint(target):
                yield target, kind
                continue
            for end, _ in self._graph.edges(target):
                self._visits_left -= 1
                if end in self._nodes and end != node:
                    yield end, kind

    def _step_between(self, source: int, target: int, kinds: AbstractSet[Kind]) -> Kind | None:
        operations = self._graph.operations
        if Kind.RT in kinds and operations[source].precedes(operations[target]):
            return Kind.RT
        return next((kind for end, kind in self._near(source, kinds) if end == target), None)

    def _around(
        self, source: int, target: int, kind: Kind, kinds: AbstractSet[Kind]
    ) -> Steps | None:
        """A shortest cycle that begins with this edge."""
        came_from: dict[int, Step] = {target: (source, kind)}
        queue = deque([target])
        not_later = len(self._by_start)  # from here on all have been reached
        while queue and source not in came_from:
            node = queue.popleft()
            near = list(self._near(node, kinds))
            if Kind.RT in kinds:
                later = bisect_right(self._starts, self._graph.operations[node].end)
                near += [(end, Kind.RT) for end in self._by_start[later:not_later]]
                not_later = min(later, not_later)
            for following, label in near:
                if following not in came_from:
                    came_from[following] = (node, label)
                    queue.append(following)
        return _walk_back(source, came_from) if source in came_from else None


def _walk_back(source: int, came_from: dict[int, Step]) -> Steps:
    steps = [came_from[source]]
    while steps[-1][0] != source:
        steps.append(came_from[steps[-1][0]])
    return tuple(reversed(steps))
