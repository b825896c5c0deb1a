"""Cycles of dependencies, and what they are called.

A knot of the graph has many cycles. The name of the anomaly is that of the weakest promise which
is broken (Adya; Elle), so names are tried from the top, and of each the shortest cycle is taken:

    G0         only ww                                   writes are interleaved
    G1c        ww and at least one wr                    information flows in a circle
    G-single   one rw, otherwise ww and wr               read skew, lost updates
    G2-item    several rw                                write skew
    …-realtime the same, and real time is needed for it  fine if time did not matter

The last four are told apart by length: the shortest explains best.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from stele.sim.checkers.dependency_graph import KIND_BITS, KIND_MASK, DependencyGraph, Kind

EDGES_VISITED_MAX = 2_000_000
"""For one knot. Knots are small unless everything is wrong; then any cycle will do."""

FIRST_EDGES_MAX = 300
"""How many edges of a knot are tried as the first of a cycle, for each name."""

WW, WR, RW, RT = {Kind.WW}, {Kind.WR}, {Kind.RW}, {Kind.RT}
ANY_WW, ANY_RW = {Kind.WW, Kind.WW_RT}, {Kind.RW, Kind.RW_RT}

Shape = tuple[set[Kind], set[Kind]]
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

Step = tuple[int, Kind]
"""A transaction, and why it comes before the next one of its cycle."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """Transactions of which each must come before the next, and the last before the first."""

    name: str
    steps: tuple[Step, ...]


class CycleFinder:
    """Looks for cycles in one knot."""

    def __init__(self, graph: DependencyGraph, knot: Iterable[int]) -> None:
        self._graph = graph
        self._knot = set(knot)
        self._visits_left = EDGES_VISITED_MAX

    def find(self) -> Cycle:
        """The cycle that says most."""
        for shape in PLAIN:
            cycle = self._shortest(shape)
            if cycle is not None:
                return cycle
        found = [cycle for cycle in map(self._shortest, REAL_TIME) if cycle is not None]
        return min(found, key=lambda cycle: len(cycle.steps), default=None) or self._any()

    def _shortest(self, shape: Shape) -> Cycle | None:
        first_kinds, kinds = shape
        best: tuple[Step, ...] | None = None
        tried = 0
        for source, target, kind in self._graph.edges_within(self._knot):
            if kind not in first_kinds:
                continue
            steps = self._path(source, target, kind, kinds)
            if steps is not None and (best is None or len(steps) < len(best)):
                best = steps
            tried += 1
            if tried == FIRST_EDGES_MAX or (best is not None and len(best) == 2):
                break
        return None if best is None else Cycle(name_of(best), best)

    def _any(self) -> Cycle:
        """Some cycle, whatever it is called."""
        for source, target, kind in self._graph.edges_within(self._knot):
            self._visits_left = EDGES_VISITED_MAX
            steps = self._path(source, target, kind, set(Kind))
            if steps is not None and kind is not Kind.FREE:
                return Cycle(name_of(steps), steps)
        raise AssertionError("a knot without a cycle")

    def _path(
        self, source: int, target: int, kind: Kind, kinds: set[Kind]
    ) -> tuple[Step, ...] | None:
        """The steps of a shortest cycle that begins with this edge; free edges count nothing."""
        came_from: dict[int, tuple[int, Kind]] = {target: (source, kind)}
        queue = deque([target])
        while queue and self._visits_left > 0:
            node = queue.popleft()
            if node == source:
                return self._steps(source, came_from)
            for edge in self._graph.out[node]:
                self._visits_left -= 1
                following, label = edge >> KIND_BITS, Kind(edge & KIND_MASK)
                if following not in self._knot or following in came_from:
                    continue
                if label is Kind.FREE:
                    came_from[following] = (node, label)
                    queue.appendleft(following)
                elif label in kinds:
                    came_from[following] = (node, label)
                    queue.append(following)
        return None

    def _steps(self, source: int, came_from: dict[int, tuple[int, Kind]]) -> tuple[Step, ...]:
        """Walk back from the source to itself; joints are passed over."""
        steps: list[Step] = []
        node = source
        while not steps or node != source:
            node, kind = came_from[node]
            if node < self._graph.transactions:
                steps.append((node, kind))
        return tuple(reversed(steps))


def name_of(steps: Iterable[Step]) -> str:
    """What a cycle is called."""
    kinds = [kind for _, kind in steps]
    overwritten_reads = sum(kind in ANY_RW for kind in kinds)
    if overwritten_reads:
        name = "G-single" if overwritten_reads == 1 else "G2-item"
    else:
        name = "G1c" if Kind.WR in kinds else "G0"
    plain = WW | WR | RW
    return name if plain.issuperset(kinds) else f"{name}-realtime"
