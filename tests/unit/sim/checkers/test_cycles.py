"""The shortest cycle, by its right name."""

from __future__ import annotations

import pytest

from stele.sim.checkers.cycles import Cycle, find_cycles, name_of
from stele.sim.checkers.dependency_graph import DependencyGraph, Kind
from stele.sim.checkers.history import NEVER, Operation, Outcome

WW, WR, RW, RT = Kind.WW, Kind.WR, Kind.RW, Kind.RT

Edge = tuple[int, int, Kind]


def transaction(start: int, end: int) -> Operation:
    return Operation(0, "txn", "", (), (), Outcome.OK, start, end)


def overlapping(count: int) -> list[Operation]:
    return [transaction(0, NEVER) for _ in range(count)]


def cycles(operations: list[Operation], edges: list[Edge]) -> list[Cycle]:
    graph = DependencyGraph(operations)
    for source, target, kind in edges:
        graph.add(source, target, kind)
    graph.add_real_time(range(len(operations)))
    return [cycle for knot in graph.knots() for cycle in find_cycles(graph, knot)]


@pytest.mark.parametrize(
    ("edges", "name"),
    [
        ([(0, 1, WW), (1, 0, WW)], "G0"),
        ([(0, 1, WW), (1, 2, WW), (2, 0, WW)], "G0"),
        ([(0, 1, WW), (1, 0, WR)], "G1c"),
        ([(0, 1, WR), (1, 0, WR)], "G1c"),
        ([(0, 1, RW), (1, 0, WR)], "G-single"),
        ([(0, 1, RW), (1, 0, WW)], "G-single"),
        ([(0, 1, RW), (1, 0, RW)], "G2-item"),
        ([(0, 1, RW), (1, 2, WR), (2, 0, RW)], "G2-item"),
    ],
)
def test_names(edges: list[Edge], name: str) -> None:
    [cycle] = cycles(overlapping(3), edges)
    assert cycle.name == name
    assert len(cycle.steps) == len(edges)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (WW, "G0-realtime"),
        (WR, "G1c-realtime"),
        (RW, "G-single-realtime"),
        (Kind.WW_RT, "G0-realtime"),
        (Kind.RW_RT, "G-single-realtime"),
    ],
)
def test_names_with_real_time(kind: Kind, name: str) -> None:
    earlier, later = transaction(0, 1), transaction(2, 3)
    [cycle] = cycles([earlier, later], [(1, 0, kind)])
    assert cycle == Cycle(name, ((1, kind), (0, RT)))


def test_what_is_known_from_real_time_only_counts_as_real_time() -> None:
    [cycle] = cycles(overlapping(2), [(0, 1, Kind.RW_RT), (1, 0, WR)])
    assert cycle.name == "G-single-realtime"


def test_the_weakest_broken_promise_is_named_although_a_cycle_with_another_is_shorter() -> None:
    edges = [(0, 1, WW), (1, 2, WW), (2, 0, WW), (0, 2, RW)]
    [cycle] = cycles(overlapping(3), edges)
    assert cycle == Cycle("G0", ((0, WW), (1, WW), (2, WW)))


def test_the_shortest_of_several_is_taken() -> None:
    ring = [(node, (node + 1) % 6, WW) for node in range(6)]
    [cycle] = cycles(overlapping(6), [*ring, (3, 1, WW)])
    assert [node for node, _ in cycle.steps] in ([1, 2, 3], [2, 3, 1], [3, 1, 2])


def test_two_parts_of_one_knot_are_told_apart() -> None:
    """Real time ties them together; each is wrong without it."""
    operations = [transaction(0, 9), transaction(0, 1), transaction(2, 9), transaction(2, 9)]
    edges = [(0, 1, WW), (1, 0, WW), (2, 3, WR), (3, 2, WR), (2, 0, WW)]
    assert sorted(cycle.name for cycle in cycles(operations, edges)) == ["G0", "G1c"]


def test_joints_are_passed_over() -> None:
    graph = DependencyGraph(overlapping(3))
    joint = graph.add_joint()
    graph.add(0, joint, RW)
    graph.add(joint, 1, Kind.FREE)
    graph.add(joint, 2, Kind.FREE)
    graph.add(2, 0, WR)
    [knot] = graph.knots()
    assert find_cycles(graph, knot) == [Cycle("G-single", ((0, RW), (2, WR)))]


def test_a_long_way_round_in_time() -> None:
    operations = [transaction(10 * place, 10 * place + 1) for place in range(500)]
    [cycle] = cycles(operations, [(499, 0, RW)])
    assert cycle == Cycle("G-single-realtime", ((499, RW), (0, RT)))


def test_where_all_is_wrong_any_cycle_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stele.sim.checkers.cycles.VISITS_MAX", 5)
    ring = [(node, (node + 1) % 50, WR) for node in range(50)]
    [cycle] = cycles(overlapping(50), ring)
    assert cycle.name == "G1c"
    assert len(cycle.steps) == 50
    [cycle] = cycles(overlapping(50), [(a, b, Kind.RW_RT) for a, b, _ in ring])
    assert cycle.name == "G2-item-realtime"


def test_the_name_of_steps() -> None:
    assert name_of([(0, RW), (1, RT), (2, RW)]) == "G2-item-realtime"
    assert name_of([(0, WW), (1, RT)]) == "G0-realtime"
