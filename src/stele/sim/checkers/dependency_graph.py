"""Which transaction must come before which, and where that goes round in a circle.

Edges have a kind, after Adya:

    ww   the target overwrote what the source wrote
    wr   the target read what the source wrote
    rw   the target overwrote what the source read
    rt   the source was over before the target began: real time

``ww_rt`` and ``rw_rt`` are the same as ``ww`` and ``rw``, where the order of the two versions is
known from real time only.

Joints keep the graph linear. That every one of many transactions precedes every one of many
others would be a product of edges; instead all point to a joint, and the joint points to all. An
edge into a joint has the kind, those out of it are free. Real time is a chain of joints: whoever
ends points to the next joint, and a transaction that begins is pointed to by the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum

from stele.sim.checkers.history import NEVER, Operation


class Kind(IntEnum):
    """Why the source comes first."""

    FREE = 0
    WW = 1
    WR = 2
    RW = 3
    RT = 4
    WW_RT = 5
    RW_RT = 6


PLAIN_KINDS = frozenset({Kind.FREE, Kind.WW, Kind.WR, Kind.RW})
"""All that do without real time."""

KIND_BITS = 3
KIND_MASK = (1 << KIND_BITS) - 1


class DependencyGraph:
    """Nodes are numbers: transactions first, as they are numbered outside, then joints."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.out: list[list[int]] = [[] for _ in operations]
        """For each node its edges: the target, shifted, and the kind in the low bits."""

    def add(self, source: int, target: int, kind: Kind) -> None:
        """The source comes before the target."""
        self.out[source].append(target << KIND_BITS | kind)

    def add_all(self, sources: Iterable[int], target: int, kind: Kind) -> None:
        """Each of the sources comes before the target; the target itself may be among them."""
        out, arrow = self.out, target << KIND_BITS | kind
        for source in sources:
            if source != target:
                out[source].append(arrow)

    def add_joint(self) -> int:
        """A node that stands for no transaction."""
        self.out.append([])
        return len(self.out) - 1

    def is_joint(self, node: int) -> bool:
        """Whether it stands for no transaction."""
        return node >= len(self.operations)

    def edges(self, node: int) -> Iterator[tuple[int, Kind]]:
        """Target and kind of every edge out of a node."""
        for edge in self.out[node]:
            yield edge >> KIND_BITS, Kind(edge & KIND_MASK)

    def add_real_time(self, numbers: Sequence[int]) -> None:
        """Whatever was over before another began precedes it."""
        operations = self.operations
        starts = sorted((operations[number].start, number) for number in numbers)
        ends = sorted((operations[number].end, number) for number in numbers)
        out, ended, joint = self.out, 0, -1
        ends.append((NEVER, -1))
        for start, number in starts:
            if ends[ended][0] < start:
                last, joint = joint, self.add_joint()
                if last >= 0:
                    out[last].append(joint << KIND_BITS)
                arrow = joint << KIND_BITS | Kind.RT
                while ends[ended][0] < start:
                    out[ends[ended][1]].append(arrow)
                    ended += 1
            if joint >= 0:
                out[joint].append(number << KIND_BITS)

    def knots(self) -> list[list[int]]:
        """The strongly connected components of more than one node."""
        rest = self._in_no_order()
        return self.components(rest, frozenset(Kind)) if rest else []

    def components(self, nodes: Collection[int], kinds: Collection[Kind]) -> list[list[int]]:
        """The same for a part of the graph, its nodes in order, by edges of certain kinds."""
        inside, allowed = frozenset(nodes), frozenset(kinds)

        def targets(node: int) -> Iterator[int]:
            return (
                edge >> KIND_BITS
                for edge in self.out[node]
                if edge & KIND_MASK in allowed and edge >> KIND_BITS in inside
            )

        return [sorted(found) for found in _Tarjan(targets).run(nodes) if len(found) > 1]

    def _in_no_order(self) -> list[int]:
        """The nodes that are left when everything is taken away that has nothing before it.

        In a good history that is none, and this is all the work.
        """
        out = self.out
        before = [0] * len(out)
        for edges in out:
            for edge in edges:
                before[edge >> KIND_BITS] += 1
        free = [node for node, count in enumerate(before) if not count]
        for node in free:  # grows while we go along
            for edge in out[node]:
                target = edge >> KIND_BITS
                before[target] -= 1
                if not before[target]:
                    free.append(target)
        return [node for node, count in enumerate(before) if count]


class _Tarjan:
    """Strongly connected components, without recursion."""

    def __init__(self, targets: Callable[[int], Iterator[int]]) -> None:
        self._targets = targets
        self._index: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._stack: list[int] = []
        self._stacked: set[int] = set()
        self._path: list[tuple[int, Iterator[int]]] = []

    def run(self, nodes: Collection[int]) -> Iterator[list[int]]:
        for root in nodes:
            if root in self._index:
                continue
            self._enter(root)
            while self._path:
                node, targets = self._path[-1]
                unvisited = self._next_unvisited(node, targets)
                if unvisited is not None:
                    self._enter(unvisited)
                    continue
                self._path.pop()
                if self._path:
                    parent = self._path[-1][0]
                    self._low[parent] = min(self._low[parent], self._low[node])
                if self._low[node] == self._index[node]:
                    yield self._cut(node)

    def _enter(self, node: int) -> None:
        self._index[node] = self._low[node] = len(self._index)
        self._stack.append(node)
        self._stacked.add(node)
        self._path.append((node, self._targets(node)))

    def _next_unvisited(self, node: int, targets: Iterator[int]) -> int | None:
        for target in targets:
            if target not in self._index:
                return target
            if target in self._stacked:
                self._low[node] = min(self._low[node], self._index[target])
        return None

    def _cut(self, root: int) -> list[int]:
        component = [self._stack.pop()]
        while component[-1] != root:
            component.append(self._stack.pop())
        self._stacked.difference_update(component)
        return component
