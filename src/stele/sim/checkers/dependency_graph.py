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

from collections.abc import Iterator, Sequence
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


KIND_BITS = 3
KIND_MASK = (1 << KIND_BITS) - 1


class DependencyGraph:
    """Nodes are numbers: transactions first, as they are numbered outside, then joints."""

    def __init__(self, transactions: int) -> None:
        self.transactions = transactions
        self.out: list[list[int]] = [[] for _ in range(transactions)]
        """For each node its edges: the target, shifted, and the kind in the low bits."""

    def add(self, source: int, target: int, kind: Kind) -> None:
        """The source comes before the target."""
        self.out[source].append(target << KIND_BITS | kind)

    def add_joint(self) -> int:
        """A node that stands for no transaction."""
        self.out.append([])
        return len(self.out) - 1

    def add_real_time(self, numbered: Sequence[tuple[int, Operation]]) -> None:
        """Whatever was over before another began precedes it."""
        starts = sorted((operation.start, number) for number, operation in numbered)
        ends = sorted(
            (operation.end, number) for number, operation in numbered if operation.end != NEVER
        )
        out, ended, joint = self.out, 0, -1
        for start, number in starts:
            if ended < len(ends) and ends[ended][0] < start:
                last, joint = joint, self.add_joint()
                if last >= 0:
                    out[last].append(joint << KIND_BITS)
                arrow = joint << KIND_BITS | Kind.RT
                while ended < len(ends) and ends[ended][0] < start:
                    out[ends[ended][1]].append(arrow)
                    ended += 1
            if joint >= 0:
                out[joint].append(number << KIND_BITS)

    def knots(self) -> list[list[int]]:
        """The strongly connected components of more than one node, of each its nodes in order."""
        rest = self._in_no_order()
        return [sorted(knot) for knot in _components(self.out, rest)] if rest else []

    def edges_within(self, nodes: set[int]) -> Iterator[tuple[int, int, Kind]]:
        """Source, target and kind of every edge between the nodes."""
        for source in sorted(nodes):
            for edge in self.out[source]:
                if edge >> KIND_BITS in nodes:
                    yield source, edge >> KIND_BITS, Kind(edge & KIND_MASK)

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


def _components(out: Sequence[Sequence[int]], nodes: Sequence[int]) -> Iterator[list[int]]:
    """Tarjan's algorithm, without recursion, on a part of the graph."""
    inside = set(nodes)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    stacked: set[int] = set()
    for root in nodes:
        if root in index:
            continue
        path: list[tuple[int, Iterator[int]]] = []
        node: int | None = root
        while True:
            if node is not None:
                index[node] = low[node] = len(index)
                stack.append(node)
                stacked.add(node)
                path.append((node, iter([edge >> KIND_BITS for edge in out[node]])))
            here, targets = path[-1]
            node = None
            for target in targets:
                if target in stacked:
                    low[here] = min(low[here], index[target])
                elif target in inside and target not in index:
                    node = target
                    break
            if node is not None:
                continue
            path.pop()
            if low[here] == index[here]:
                component = [stack.pop()]
                while component[-1] != here:
                    component.append(stack.pop())
                stacked.difference_update(component)
                if len(component) > 1:
                    yield component
            if not path:
                break
            low[path[-1][0]] = min(low[path[-1][0]], low[here])
