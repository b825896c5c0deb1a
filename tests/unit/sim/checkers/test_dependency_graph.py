"""Knots are what a textbook says they are, and real time is what the clock says."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.sim.checkers.dependency_graph import PLAIN_KINDS, DependencyGraph, Kind
from stele.sim.checkers.history import NEVER, Operation, Outcome

NODES = 6


def transaction(start: int = 0, end: int = NEVER) -> Operation:
    outcome = Outcome.UNKNOWN if end == NEVER else Outcome.OK
    return Operation(0, "txn", "", (), None, outcome, start, end)


def graph_of(count: int) -> DependencyGraph:
    return DependencyGraph([transaction() for _ in range(count)])


def reachable(graph: DependencyGraph) -> set[tuple[int, int]]:
    """Warshall's closure."""
    nodes = range(len(graph.out))
    pairs = {(node, target) for node in nodes for target, _ in graph.edges(node)}
    for middle, source, target in product(nodes, repeat=3):
        if (source, middle) in pairs and (middle, target) in pairs:
            pairs.add((source, target))
    return pairs


edges = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=14)


@settings(max_examples=300)
@given(edges=edges)
def test_knots_are_sets_of_nodes_that_reach_each_other(edges: list[tuple[int, int]]) -> None:
    graph = graph_of(NODES)
    for source, target in edges:
        if source != target:
            graph.add(source, target, Kind.WW)
    reach = reachable(graph)
    knots = graph.knots()
    together = {frozenset((a, b)) for knot in knots for a in knot for b in knot if a != b}
    assert together == {frozenset((a, b)) for a, b in reach if (b, a) in reach and a != b}
    assert all(knot == sorted(knot) for knot in knots)


spans = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted).map(tuple)


@settings(max_examples=300)
@given(spans=st.lists(spans, min_size=1, max_size=7), endless=st.sets(st.integers(0, 6)))
def test_real_time_is_what_the_clock_says(spans: list[tuple[int, int]], endless: set[int]) -> None:
    operations = [
        transaction(2 * start, NEVER if number in endless else 2 * end + 1)
        for number, (start, end) in enumerate(spans)
    ]
    graph = DependencyGraph(operations)
    graph.add_real_time(range(len(operations)))
    numbers = range(len(operations))
    by_graph = {(a, b) for a, b in reachable(graph) if a in numbers and b in numbers}
    by_clock = {(a, b) for a in numbers for b in numbers if operations[a].precedes(operations[b])}
    assert by_graph == by_clock
    assert not graph.knots()


def test_real_time_takes_few_edges() -> None:
    operations = [transaction(2 * place, 2 * place + 1) for place in range(1_000)]
    graph = DependencyGraph(operations)
    graph.add_real_time(range(1_000))
    assert sum(len(edges) for edges in graph.out) < 4_000


def test_components_by_kind() -> None:
    graph = graph_of(4)
    graph.add(0, 1, Kind.WW)
    graph.add(1, 0, Kind.RT)
    graph.add(2, 3, Kind.WR)
    graph.add(3, 2, Kind.RW)
    graph.add(1, 2, Kind.RW)
    assert sorted(graph.knots()) == [[0, 1], [2, 3]]
    assert graph.components(range(4), PLAIN_KINDS) == [[2, 3]]
    assert graph.components([2], PLAIN_KINDS) == []


def test_a_joint_stands_for_all_pairs() -> None:
    graph = graph_of(4)
    joint = graph.add_joint()
    graph.add_all([0, 1], joint, Kind.RW)
    for target in (2, 3):
        graph.add(joint, target, Kind.FREE)
    assert graph.is_joint(joint)
    assert not graph.is_joint(3)
    assert {(a, b) for a, b in reachable(graph) if joint not in (a, b)} == {
        (0, 2), (0, 3), (1, 2), (1, 3)
    }  # fmt: skip


def test_nothing_precedes_itself() -> None:
    graph = graph_of(2)
    graph.add_all([0, 1], 1, Kind.RW)
    assert list(graph.edges(0)) == [(1, Kind.RW)]
    assert list(graph.edges(1)) == []


def test_a_deep_graph_needs_no_recursion() -> None:
    graph = graph_of(20_000)
    for node in range(20_000):
        graph.add(node, (node + 1) % 20_000, Kind.WW)
    [knot] = graph.knots()
    assert len(knot) == 20_000
