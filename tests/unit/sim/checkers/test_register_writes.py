"""Edges and reasons of transactions on registers."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument
from stele.sim.checkers.dependency_graph import Kind
from stele.sim.checkers.register_writes import RegisterWrites
from tests.unit.sim.checkers import notation


def evidence(text: str) -> RegisterWrites:
    return RegisterWrites(notation.operations(text))


def pairs(found: RegisterWrites, kind: Kind) -> set[tuple[int, int]]:
    """Edges of a kind between transactions, also through a joint."""
    return {
        (source, end)
        for source in range(len(found.operations))
        for target, label in found.graph.edges(source)
        if label is kind
        for end in (
            [node for node, _ in found.graph.edges(target)]
            if found.graph.is_joint(target)
            else [target]
        )
    }


def test_who_read_and_wrote_orders_two_versions() -> None:
    found = evidence(
        "a>txn/[[write x 1]] b>txn/[[read x] [write x 2]] c>txn/[[read x]] "
        "a<[[write x 1]] b<[[read x 1] [write x 2]] c<[[read x 1]]"
    )
    assert pairs(found, Kind.WR) == {(0, 1), (0, 2)}
    assert pairs(found, Kind.WW) == {(0, 1)}
    assert pairs(found, Kind.RW) == {(2, 1)}


def test_nothing_is_older_than_nil() -> None:
    found = evidence(
        "a>txn/[[read x]] b>txn/[[write x 1]] c>txn/[[read x] [write x 2]] "
        "a<[[read x nil]] b<[[write x 1]] c<[[read x nil] [write x 2]]"
    )
    assert pairs(found, Kind.RW) == {(0, 1), (0, 2), (2, 1)}


def test_time_orders_versions() -> None:
    found = evidence(
        "a>txn/[[write x 1]] a<[[write x 1]] b>txn/[[write x 2]] c>txn/[[read x]] "
        "b<[[write x 2]] c<[[read x 1]]"
    )
    assert pairs(found, Kind.WW_RT) == {(0, 1)}
    assert pairs(found, Kind.RW_RT) == {(2, 1)}
    told = found.why(2, 1, Kind.RW_RT)
    assert told == (
        "{source} read x as 1, {target} wrote 2; client 0 had 1 until 1, client 1 had 2 from 2 on"
    )


def test_time_passes_through_those_in_between() -> None:
    """The first is not compared with the last: the one in the middle is over, and newer."""
    found = evidence(
        "a>txn/[[write x 1]] a<[[write x 1]] b>txn/[[write x 2]] b<[[write x 2]] "
        "c>txn/[[write x 3]] c<[[write x 3]]"
    )
    assert pairs(found, Kind.WW_RT) == {(0, 1), (1, 2)}


def test_writes_that_overlap_stay_without_order() -> None:
    found = evidence("a>txn/[[write x 1]] b>txn/[[write x 2]] a<[[write x 1]] b<[[write x 2]]")
    assert all(not edges for edges in found.graph.out)


@pytest.mark.parametrize(
    ("source", "target", "kind", "told"),
    [
        (0, 1, Kind.WR, "{target} read x as 1, which {source} wrote"),
        (0, 1, Kind.WW, "{source} wrote x as 1, {target} wrote 2"),
        (2, 1, Kind.RW, "{source} read x as 1, {target} wrote 2"),
        (3, 0, Kind.RW, "{source} read x as nil, {target} wrote 1"),
        (0, 2, Kind.RT, "{source} was over before {target} began"),
    ],
)
def test_reasons(source: int, target: int, kind: Kind, told: str) -> None:
    found = evidence(
        "a>txn/[[write x 1]] b>txn/[[read x] [write x 2]] c>txn/[[read x]] d>txn/[[read x]] "
        "a<[[write x 1]] b<[[read x 1] [write x 2]] c<[[read x 1]] d<[[read x nil]]"
    )
    assert found.why(source, target, kind) == told


@pytest.mark.parametrize("kind", [Kind.WW, Kind.WR, Kind.RW, Kind.WW_RT, Kind.RW_RT])
def test_an_edge_without_a_reason_is_a_mistake_of_ours(kind: Kind) -> None:
    found = evidence("a>txn/[[write x 1]] b>txn/[[read x]] a<[[write x 1]] b<[[read x 1]]")
    with pytest.raises(AssertionError, match="an edge without a reason"):
        found.why(1, 1, kind)


@pytest.mark.parametrize("second", ["1", "nil"])
def test_values_that_tell_nothing_are_a_mistake_of_the_workload(second: str) -> None:
    with pytest.raises(InvalidArgument, match="is written to 'x', nil or twice"):
        evidence(f"a>txn/[[write x 1]] a? b>txn/[[write x {second}]] b?")


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no step of a register transaction"):
        evidence("a>txn/[[append x 1]] a<[[append x 1]]")


def test_the_reads_of_an_unknown_transaction_that_was_seen_count() -> None:
    found = evidence("a>txn/[[read y 5] [read z] [write x 1]] a? b>txn/[[read x]] b<[[read x 1]]")
    assert found.findings.counts == {"unwritten read": 1}
