"""Which node is asked next."""

from __future__ import annotations

import pytest

from stele.client.metastore_route import ADDRESSES_MAX, Route
from stele.errors import InvalidArgument


def test_a_client_needs_somebody_to_ask() -> None:
    with pytest.raises(InvalidArgument, match="at least one address"):
        Route([])


def test_many_failures_of_one_node_move_on_by_one() -> None:
    route = Route(["a", "b", "c"])
    for _ in range(64):
        route.failed("a")
    assert route.current == "b"
    route.failed("b")
    route.failed("c")
    assert route.current == "a"


def test_a_hint_is_followed_and_remembered() -> None:
    route = Route(["a"])
    assert route.redirected("a", "z:1")
    assert route.current == "z:1"
    assert route.addresses == ("a", "z:1")
    assert route.redirected("a", "y:1"), "an old answer: the route is elsewhere already"
    assert route.current == "z:1"


def test_a_node_that_knows_no_leader_is_passed_over_for_the_next() -> None:
    route = Route(["a", "b"])
    assert not route.redirected("a", None)
    assert route.current == "b"
    assert not route.redirected("b", "b"), "a hint to itself is none"
    assert route.current == "a"
    assert not route.redirected("a", "916247427"), "a node without an address cannot be asked"
    assert route.current == "b"


def test_a_stale_hint_does_not_hide_a_node() -> None:
    """The leader has moved to "c:1"; "b:1" follows it, and still names the address it had."""
    route = Route(["a:1", "b:1", "c:1"])
    asked: list[str] = []
    while route.current != "c:1" and len(asked) < 10:
        asked.append(route.current)
        if route.current == "a:1":
            route.failed("a:1")
        else:
            assert route.redirected("b:1", "a:1")
    assert asked == ["a:1", "b:1", "a:1"]


def test_the_only_node_is_asked_again() -> None:
    route = Route(["a"])
    route.failed("a")
    assert route.current == "a"


def test_no_more_nodes_are_remembered_than_there_can_be() -> None:
    route = Route(["a"])
    route.learn(str(number) for number in range(1000))
    assert len(route.addresses) == ADDRESSES_MAX


def test_a_group_that_moves_on_for_ever_is_followed_and_the_seeds_are_kept() -> None:
    """Each leader in its turn moves to an address that nobody has heard of before."""
    route = Route(["a:1", "b:1"])
    for number in range(10 * ADDRESSES_MAX):
        route.failed(route.current)
        seed = route.current
        assert route.redirected(seed, f"new:{number}"), number
        assert route.current == f"new:{number}"
    assert len(route.addresses) == ADDRESSES_MAX
    assert route.addresses[:2] == ("a:1", "b:1")
    asked = set()
    for _ in range(ADDRESSES_MAX + 1):
        asked.add(route.current)
        route.failed(route.current)
    assert asked == set(route.addresses), "the round leaves nobody out"


def test_a_hint_that_cannot_be_remembered_is_passed_over() -> None:
    route = Route(str(number) for number in range(2 * ADDRESSES_MAX))
    assert not route.redirected("0", "new:1")
    assert route.current == "1"
