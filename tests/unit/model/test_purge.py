"""Purge policies: the text, its meaning against the tree, and errors that point."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidSchema
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.limits import PURGE_DEPTH_MAX, PURGE_TEXT_BYTES_MAX
from stele.model.purge import And, Clause, MaxAge, MaxHistory, Node, Or, PurgePolicy

leaves = st.one_of(st.builds(MaxHistory, st.integers(1, 6)), st.builds(MaxAge, st.integers(1, 8)))


def joined(kind: type[And | Or], parts: list[Node]) -> Node:
    """As the parser builds it: the same kind is never nested."""
    flat = [
        inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))
    ]
    return kind(tuple(flat))


nodes: st.SearchStrategy[Node] = st.recursive(
    leaves,
    lambda children: st.builds(
        joined, st.sampled_from([And, Or]), st.lists(children, min_size=2, max_size=3)
    ),
    max_leaves=8,
)


def drops(node: Node, index: int, timestamp: int, now: int) -> bool:
    """What the text means, read off the tree."""
    match node:
        case MaxHistory(versions):
            return index >= versions
        case MaxAge(age):
            return timestamp < now - age
        case And(parts):
            return all(drops(part, index, timestamp, now) for part in parts)
        case Or(parts):
            return any(drops(part, index, timestamp, now) for part in parts)


@given(nodes, st.integers(0, 7), st.integers(-10, 10))
@settings(max_examples=500)
def test_the_normal_form_means_what_the_tree_means(node: Node, index: int, timestamp: int) -> None:
    policy = PurgePolicy(node)
    assert policy.drops(index, timestamp, 0) == drops(node, index, timestamp, 0)


@given(nodes)
def test_no_clause_implies_another(node: Node) -> None:
    clauses = PurgePolicy(node).clauses
    assert clauses
    for one in clauses:
        assert not any(one.implied_by(other) for other in clauses if other is not one)
    limits = [clause.history_limit for clause in clauses]
    assert limits == sorted(set(limits))


@given(nodes)
def test_text_round_trip(node: Node) -> None:
    policy = PurgePolicy(node)
    assert PurgePolicy.parse(str(policy)) == policy
    assert PurgePolicy.parse(policy) is policy


@pytest.mark.parametrize(
    ("text", "canonical", "clauses"),
    [
        ("max-history=3", "max-history=3", [Clause(3)]),
        (" max-age = 7d ", "max-age=7d", [Clause(0, 7 * 86_400_000_000)]),
        ("max-age=60000000", "max-age=1m", [Clause(0, 60_000_000)]),
        (
            "max-history=3 and max-age=1s or max-history=10",
            "max-history=3 and max-age=1s or max-history=10",
            [Clause(3, 1_000_000), Clause(10)],
        ),
        (
            "max-history=3 and (max-age=1s or max-history=10)",
            "max-history=3 and (max-age=1s or max-history=10)",
            [Clause(3, 1_000_000), Clause(10)],
        ),
        ("((max-history=3))", "max-history=3", [Clause(3)]),
        (
            "max-history=2 or (max-history=3 or max-age=5)",
            "max-history=2 or max-history=3 or max-age=5",
            [Clause(0, 5), Clause(2)],
        ),
        ("max-history=2 and max-history=3", "max-history=2 and max-history=3", [Clause(3)]),
        ("max-age=2 and max-age=3", "max-age=2 and max-age=3", [Clause(0, 3)]),
        ("max-age=2 or max-age=3", "max-age=2 or max-age=3", [Clause(0, 2)]),
    ],
)
def test_examples(text: str, canonical: str, clauses: list[Clause]) -> None:
    policy = PurgePolicy.parse(text)
    assert str(policy) == canonical
    assert list(policy.clauses) == clauses


def test_cutoffs() -> None:
    policy = PurgePolicy.parse("max-history=3 and max-age=100 or max-history=9")
    assert policy.cutoffs(1000) == ((3, 900), (9, TIMESTAMP_MAX))
    assert policy.cutoffs(TIMESTAMP_MIN) == ((3, TIMESTAMP_MIN), (9, TIMESTAMP_MAX))
    assert policy.drops(9, TIMESTAMP_MAX - 1, 1000)
    assert not policy.drops(3, 900, 1000)
    assert policy.drops(3, 899, 1000)


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("", "not the end", 0),
        ("max-history", "needs '='", 11),
        ("max-history=", "whole number", 12),
        ("max-history=0", "whole number", 12),
        ("max-history=-1", "whole number", 12),
        ("max-history=3x", "whole number", 12),
        ("max-history=99999999999999999999999", "whole number", 12),
        ("max-age=0", "above zero", 8),
        ("max-age=3w", "max-age '3w'", 8),
        ("max-size=3", "'max-size'", 0),
        ("max-history=3 max-age=3d", "'max-age'", 14),
        ("max-history=3 and", "not the end", 17),
        ("or max-history=3", "'or'", 0),
        ("(max-history=3", "not closed", 0),
        ("max-history=3)", "not ')'", 13),
        ("max-history=3 & max-age=3", "'&'", 14),
        ("max-history=3 é", "'é'", 14),
        ("max-history=\u0663", "has no meaning", 12),
        ("max-history==3", "whole number", 12),
    ],
)
def test_errors_point_at_their_place(text: str, reason: str, position: int) -> None:
    with pytest.raises(InvalidSchema) as caught:
        PurgePolicy.parse(text)
    first, shown, caret = str(caught.value).split("\n")
    assert reason in first
    assert shown == "  " + text
    assert caret == "  " + " " * position + "^"


def test_sizes_are_limited() -> None:
    with pytest.raises(InvalidSchema, match=str(PURGE_TEXT_BYTES_MAX)):
        PurgePolicy.parse("max-age=1" + " " * PURGE_TEXT_BYTES_MAX)
    deep = "(" * PURGE_DEPTH_MAX + "max-age=1" + ")" * PURGE_DEPTH_MAX
    assert str(PurgePolicy.parse(deep)) == "max-age=1"
    with pytest.raises(InvalidSchema, match="nested"):
        PurgePolicy.parse(f"({deep})")
    with pytest.raises(InvalidSchema, match="int"):
        PurgePolicy.parse(3)  # type: ignore[arg-type]


def test_the_normal_form_of_a_nasty_policy_stays_small() -> None:
    pairs = [f"(max-history={number} or max-age={40 - number})" for number in range(1, 40)]
    text = " and ".join(pairs)[:PURGE_TEXT_BYTES_MAX].rpartition(" and ")[0]
    policy = PurgePolicy.parse(text)
    assert len(policy.clauses) <= 41
