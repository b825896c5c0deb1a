"""Edges and reasons of transactions on lists."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument
from stele.sim.checkers.dependency_graph import Kind
from stele.sim.checkers.list_append import ListAppend, steps_of
from tests.unit.sim.checkers import notation


def evidence(text: str) -> ListAppend:
    return ListAppend(notation.operations(text))


def pairs(found: ListAppend, kind: Kind) -> set[tuple[int, int]]:
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


THREE = (
    "a>txn/[[append x 1]] b>txn/[[read x] [append x 2]] c>txn/[[read x]] "
    "a<[[append x 1]] b<[[read x [1]] [append x 2]] c<[[read x [1 2]]]"
)


def test_edges_follow_from_the_longest_read() -> None:
    found = evidence(THREE)
    assert pairs(found, Kind.WW) == {(0, 1)}
    assert pairs(found, Kind.WR) == {(0, 1), (1, 2)}
    assert pairs(found, Kind.RW) == set()


def test_a_reader_precedes_what_it_did_not_see() -> None:
    found = evidence(
        "a>txn/[[append x 1]] b>txn/[[read x]] c>txn/[[read x]] "
        "a<[[append x 1]] b<[[read x []]] c<[[read x [1]]]"
    )
    assert pairs(found, Kind.RW) == {(1, 0)}


def test_appends_that_nobody_read_come_last() -> None:
    found = evidence(
        "a>txn/[[append x 1]] b>txn/[[append x 2]] c>txn/[[append x 3]] d>txn/[[read x]] "
        "a<[[append x 1]] b<[[append x 2]] c<[[append x 3]] d<[[read x [1]]]"
    )
    assert pairs(found, Kind.WW) == {(0, 1), (0, 2)}
    assert pairs(found, Kind.RW) == {(3, 1), (3, 2)}


def test_an_unread_append_does_not_precede_itself() -> None:
    found = evidence(
        "a>txn/[[read x] [append x 1]] b>txn/[[append x 2]] "
        "a<[[read x []] [append x 1]] b<[[append x 2]]"
    )
    assert pairs(found, Kind.RW) == {(0, 1)}
    assert not found.graph.knots()


def test_unknown_transactions_that_nobody_saw_have_no_edges() -> None:
    found = evidence("a>txn/[[append x 1]] a? b>txn/[[read x]] b<[[read x []]]")
    assert all(not edges for edges in found.graph.out)


@pytest.mark.parametrize(
    ("source", "target", "kind", "told"),
    [
        (0, 1, Kind.WW, "{target} appended 2 to x behind 1 of {source}"),
        (0, 1, Kind.WR, "{target} read x as [1], the last of it by {source}"),
        (0, 2, Kind.RT, "{source} was over before {target} began"),
    ],
)
def test_reasons(source: int, target: int, kind: Kind, told: str) -> None:
    assert evidence(THREE).why(source, target, kind) == told


def test_the_reason_of_a_missed_append() -> None:
    found = evidence("a>txn/[[append x 1]] b>txn/[[read x]] a<[[append x 1]] b<[[read x []]]")
    assert found.why(1, 0, Kind.RW) == "{source} read x as [], without 1 of {target}"


@pytest.mark.parametrize("kind", [Kind.WW, Kind.WR, Kind.RW])
def test_an_edge_without_a_reason_is_a_mistake_of_ours(kind: Kind) -> None:
    with pytest.raises(AssertionError, match="an edge without a reason"):
        evidence(THREE).why(2, 0, kind)


def test_a_value_appended_twice_is_a_mistake_of_the_workload() -> None:
    with pytest.raises(InvalidArgument, match="1 is appended to 'x' twice"):
        evidence("a>txn/[[append x 1]] a? b>txn/[[append x 1]] b?")


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no step of a list transaction"):
        evidence("a>txn/[[dance x 1]] a<[[dance x 1]]")


def test_other_operations_are_not_looked_at() -> None:
    assert evidence("a>get a<1").operations == []


def test_steps_are_those_of_the_answer_if_there_is_one() -> None:
    one, two, three = notation.operations(
        "a>txn/[[read x]] a<[[read x []]] b>txn/[[read x]] b? c>txn c?"
    )
    assert [steps_of(one), steps_of(two), steps_of(three)] == [
        (("read", "x", ()),), (("read", "x"),), ()
    ]  # fmt: skip
